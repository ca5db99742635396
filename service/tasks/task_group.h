// A task group: what its owner specified, and its tasks.
#ifndef SPARSEAGG_SERVICE_TASKS_TASK_GROUP_H_
#define SPARSEAGG_SERVICE_TASKS_TASK_GROUP_H_

#include <chrono>
#include <compare>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "service/tasks/task_types.h"

namespace sparseagg {

// A moment. Leases are measured on a clock that counts the milliseconds in which the server runs
// (tasks.h); it goes on where the last process ended.
struct TaskTime {
  int64_t lease_ms = 0;
  std::chrono::steady_clock::time_point steady;  // for deadlines
  std::chrono::system_clock::time_point wall;
};

// The part of a group that never changes.
struct TaskGroupInfo {
  std::string name;   // qualified
  std::string pool;   // without the tenant
  std::string round;  // qualified
  Durability durability = Durability::kMemory;
  uint64_t order = 0;  // of creation, unique
  uint32_t count = 0;
  std::vector<std::string> contributors;  // empty: the default ones
  std::shared_ptr<const std::string> payload = std::make_shared<const std::string>();
  std::vector<std::string> required_capabilities;
  std::chrono::milliseconds lease{0};
  uint32_t attempts_max = 0;
  std::chrono::system_clock::time_point create_time;
  std::optional<std::chrono::system_clock::time_point> deadline;
  std::string request_id;      // of the call that created it
  std::string request_digest;  // of that call's content

  // Returns the bytes that count against task-bytes-max.
  uint64_t bytes() const {
    uint64_t bytes = payload->size();
    for (const std::string& contributor : contributors) bytes += contributor.size();
    return bytes;
  }
};

// The part of a task that changes.
struct TaskRecord {
  TaskState state = TaskState::kAvailable;
  TaskEnd end = TaskEnd::kNone;
  uint32_t attempts = 0;
  uint64_t leases = 0;
  uint64_t token = 0;           // of the last lease
  uint64_t answered_token = 0;  // of the last lease that the worker ended by a call
  int64_t lease_end_ms = 0;     // on the clock of leases, while LEASED
  int64_t end_time_ms = 0;      // wall clock, in a final state
  std::string worker;
  std::string request_id;  // of the acquisition
  std::string last_failure;

  bool operator==(const TaskRecord&) const = default;
};

// Thread-compatible; only TaskTable changes it.
class TaskGroup {
 public:
  explicit TaskGroup(TaskGroupInfo info)
      : info_(std::move(info)), tasks_(info_.count), available_count_(info_.count) {}

  const TaskGroupInfo& info() const { return info_; }
  const TaskRecord& task(uint32_t number) const { return tasks_[number - 1]; }
  std::string ContributorOf(uint32_t number) const;
  TaskGroupSnapshot Snapshot() const;
  // The state as of the last TaskTable::Keep(), if there was one.
  const TaskGroupSnapshot& committed() const { return *committed_; }
  bool is_committed() const { return committed_.has_value(); }

 private:
  friend class TaskTable;

  const TaskGroupInfo info_;
  std::vector<TaskRecord> tasks_;
  std::deque<uint32_t> queue_;  // tasks to hand out; some may no longer be AVAILABLE
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  uint64_t available_count_ = 0;
  uint64_t leased_count_ = 0;
  uint64_t completed_count_ = 0;
  uint64_t failed_count_ = 0;
  uint64_t cancelled_count_ = 0;
  uint64_t leases_ = 0;
  std::optional<TaskGroupSnapshot> committed_;
};

// A task: its group, and its number from 1.
struct TaskId {
  TaskGroup* group = nullptr;
  uint32_t number = 0;

  const TaskRecord& record() const { return group->task(number); }
  std::string contributor() const { return group->ContributorOf(number); }
  bool operator==(const TaskId&) const = default;
  // Tasks are ordered by their creation.
  std::strong_ordering operator<=>(const TaskId& other) const {
    return std::pair(group->info().order, number) <=>
           std::pair(other.group->info().order, other.number);
  }
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TASKS_TASK_GROUP_H_
