// Names of groups and tasks, and the checks of what callers send. All errors are INVALID_ARGUMENT
// unless stated, and quote the value.
//
//   taskgroups/{group}                   a group; {group} is as the id of a round
//   taskgroups/{group}/tasks/{number}    a task; numbers count from 1
#ifndef SPARSEAGG_SERVICE_TASKS_TASK_NAMES_H_
#define SPARSEAGG_SERVICE_TASKS_TASK_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/tasks/task_types.h"

namespace sparseagg {

inline constexpr std::string_view kTaskGroupPrefix = "taskgroups/";

struct TaskName {
  std::string group;    // "taskgroups/{group}"
  uint32_t number = 0;  // 0: the name is that of a group
};
// INVALID_TASK_NAME.
absl::StatusOr<TaskName> ParseTaskName(std::string_view name);
// Returns whether this is the name of a group of some tenant.
bool IsQualifiedGroup(std::string_view name);
std::string TaskNameOf(std::string_view group, uint32_t number);

// INVALID_TASK_GROUP, which names the group, the field and the limit; INVALID_CONTRIBUTOR;
// INVALID_REQUEST_ID; INVALID_ROUND_NAME. Checks everything but the round itself.
absl::Status CheckCreateTasks(const CreateTasksArgs& args);
// INVALID_WORKER, INVALID_TASK_REQUEST, INVALID_REQUEST_ID.
absl::Status CheckAcquire(const AcquireArgs& args);

// INVALID_TASK_REQUEST unless a list of the call has 1 to `limit` elements.
absl::Status CheckNumber(std::string_view what, size_t number, uint64_t limit);

// TASK_NOT_FOUND and TASK_GROUP_NOT_FOUND (NOT_FOUND).
absl::Status TaskNotFound(std::string_view name);
absl::Status TaskGroupNotFound(std::string_view name);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TASKS_TASK_NAMES_H_
