// Limits of the task service; each is a setting (service/config/config.cc) and a number in an error
// message. proto/limits.h has those of one call.
#ifndef SPARSEAGG_SERVICE_TASKS_TASK_LIMITS_H_
#define SPARSEAGG_SERVICE_TASKS_TASK_LIMITS_H_

#include <cstdint>

namespace sparseagg {

struct TaskLimits {
  // Tasks that exist at a time, in any state, and the bytes that are kept of them: payloads, names
  // of contributors and workers, texts of failures, and 2 KiB for each group. A lease is not
  // refused for the name of its worker, so that these may exceed the limit by 128 bytes a task;
  // texts have half of the limit.
  uint64_t tasks_max = 1'000'000;
  uint64_t task_bytes_max = uint64_t{256} << 20;
  uint64_t tenant_tasks_max = 0;  // tasks of one tenant; 0: no limit but tasks_max
  // How many calls in a second the workers of one tenant that find no task shall make; 0: as they
  // like.
  uint64_t task_polls_per_second = 1000;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TASKS_TASK_LIMITS_H_
