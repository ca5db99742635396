// The rows that the store keeps of tasks (task_row_store.h):
//
//   clock                 the milliseconds that servers have run on this store
//   group:NAME            what the owner specified; NAME is qualified
//   task:NAME/NUMBER      what has changed about a task; a task that nobody touched has no row
//
// A group's row is one line of JSON, then the payload. The others are JSON and a number.
#ifndef SPARSEAGG_SERVICE_TASKS_STORED_TASKS_H_
#define SPARSEAGG_SERVICE_TASKS_STORED_TASKS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "service/store/task_row_store.h"
#include "service/tasks/task_group.h"

namespace sparseagg {

inline constexpr std::string_view kClockRow = "clock";

std::string GroupRowKey(std::string_view qualified_group);
std::string TaskRowKey(std::string_view qualified_group, uint32_t number);

struct TaskRowName {
  enum class Kind : uint8_t { kOther, kClock, kGroup, kTask };
  Kind kind = Kind::kOther;
  std::string group;    // qualified
  uint32_t number = 0;  // of a task
};
TaskRowName ParseTaskRowKey(std::string_view key);

std::string WriteTaskGroup(const TaskGroupInfo& info);
std::string WriteTask(const TaskRecord& record);

// DATA_LOSS (STORE_CORRUPT) for what no version has written.
absl::StatusOr<TaskGroupInfo> ReadTaskGroup(std::string_view qualified_group, std::string_view row);
absl::StatusOr<TaskRecord> ReadTask(std::string_view row);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TASKS_STORED_TASKS_H_
