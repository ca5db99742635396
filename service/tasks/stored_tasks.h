// The rows that the store keeps of tasks (task_row_store.h):
//
//   clock                 the milliseconds that servers have run on this store
//   end:NAME              the end of all tasks of a group that were not finished
//   group:NAME            what the owner specified; NAME is qualified
//   request:TENANT ID     a creation of which a group was forgotten
//   task:NAME/NUMBER      what has changed about a task; a task that nobody touched has no row
//
// A group's row is one line of JSON, then the payload. The others are JSON and a number. The end of
// a group comes after the rows of its tasks: what they say of a task that is not finished holds but
// for its state. All rows of a group are deleted with it, and again before a group of its name is
// stored, so that no row is read as one of a later group.
#ifndef SPARSEAGG_SERVICE_TASKS_STORED_TASKS_H_
#define SPARSEAGG_SERVICE_TASKS_STORED_TASKS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "service/store/task_row_store.h"
#include "service/tasks/task_group.h"

namespace sparseagg {

inline constexpr std::string_view kClockRow = "clock";

std::string GroupRowKey(std::string_view qualified_group);
std::string EndRowKey(std::string_view qualified_group);
std::string RequestRowKey(std::string_view tenant, std::string_view request_id);
std::string TaskRowKey(std::string_view qualified_group, uint32_t number);
// Adds what deletes all rows of a group.
void DeleteGroupRows(std::string_view qualified_group, std::vector<TaskRow>& rows);

struct TaskRowName {
  enum class Kind : uint8_t { kOther, kClock, kEnd, kGroup, kRequest, kTask };
  Kind kind = Kind::kOther;
  std::string group;       // qualified; it is the name of a group
  uint32_t number = 0;     // of a task
  std::string tenant;      // of a request
  std::string request_id;  // of a request
};
// kOther for a key that no version has written.
TaskRowName ParseTaskRowKey(std::string_view key);

// A creation that is remembered by its request id.
struct ForgottenRequest {
  std::string digest;
  int64_t forgotten_ms = 0;
};

std::string WriteTaskGroup(const TaskGroupInfo& info);
std::string WriteTask(const TaskRecord& record);
std::string WriteGroupEnd(const TaskGroupEnd& end);
std::string WriteForgottenRequest(const ForgottenRequest& request);

// DATA_LOSS (STORE_CORRUPT) for what no version has written.
absl::StatusOr<int64_t> ReadClock(std::string_view row);
absl::StatusOr<TaskGroupInfo> ReadTaskGroup(std::string_view qualified_group, std::string_view row);
absl::StatusOr<TaskRecord> ReadTask(std::string_view tenant, std::string_view row);
absl::StatusOr<TaskGroupEnd> ReadGroupEnd(std::string_view row);
absl::StatusOr<ForgottenRequest> ReadForgottenRequest(std::string_view row);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TASKS_STORED_TASKS_H_
