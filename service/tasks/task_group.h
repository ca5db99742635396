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
#include <string_view>
#include <utility>
#include <vector>

#include "service/tasks/request_key.h"
#include "service/tasks/task_types.h"

namespace sparseagg {

// A moment. Leases are measured on a clock that counts the milliseconds in which the server runs
// (tasks.h); it goes on where the last process ended.
struct TaskTime {
  int64_t lease_ms = 0;
  std::chrono::steady_clock::time_point steady;  // for deadlines
  std::chrono::system_clock::time_point wall;

  int64_t wall_ms() const {
    return std::chrono::floor<std::chrono::milliseconds>(wall.time_since_epoch()).count();
  }
};

// The part of a group that never changes.
struct TaskGroupInfo {
  std::string name;   // qualified
  std::string pool;   // without the tenant
  std::string round;  // qualified
  // Tells the round from others of its name (RoundOfTasks::created); 0: unknown.
  int64_t round_created = 0;
  Durability durability = Durability::kMemory;
  uint64_t order = 0;  // of creation, unique
  uint32_t count = 0;
  std::vector<std::string> contributors;  // empty: the default ones
  std::shared_ptr<const std::string> payload = std::make_shared<const std::string>();
  std::vector<std::string> required_capabilities;
  std::chrono::milliseconds lease{0};
  uint32_t attempts_max = 0;
  std::chrono::system_clock::time_point create_time;              // in milliseconds
  std::optional<std::chrono::system_clock::time_point> deadline;  // in milliseconds
  std::string request_id;                                         // of the call that created it
  std::string request_digest;                                     // of that call's content

  // Returns the bytes that count against task-bytes-max: all that the group keeps but the fixed
  // part of each task, of which tasks-max is the limit.
  uint64_t bytes() const;
};

// The part of a task that changes.
struct TaskRecord {
  TaskState state = TaskState::kAvailable;
  TaskEnd end = TaskEnd::kNone;
  uint32_t attempts = 0;
  uint64_t leases = 0;
  uint64_t token = 0;           // of the last lease
  uint64_t answered_token = 0;  // `token`, if the worker has ended the last lease by a call; else 0
  int64_t lease_end_ms = 0;     // on the clock of leases, while LEASED
  int64_t end_time_ms = 0;      // wall clock, in a final state
  RequestKey request;           // of the last acquisition
  std::string worker;           // of the last lease
  std::string last_failure;

  // Returns the bytes that count against task-bytes-max.
  uint64_t bytes() const { return worker.size() + last_failure.size(); }
  bool operator==(const TaskRecord&) const = default;
};

// The end of all tasks of a group that were not finished: stored as one row.
struct TaskGroupEnd {
  // What they have become, except those whose update was counted.
  TaskState state = TaskState::kCancelled;
  TaskEnd why = TaskEnd::kNone;
  int64_t end_time_ms = 0;
  // The tasks among them whose update was counted: first and last number of each range, ascending.
  std::vector<std::pair<uint32_t, uint32_t>> completed;
};

// Thread-compatible; only TaskTable changes it.
class TaskGroup {
 public:
  explicit TaskGroup(TaskGroupInfo info);

  const TaskGroupInfo& info() const { return info_; }
  // See TaskGroupInfo::round_created; a group of an earlier version learns it at the start.
  int64_t round_created() const { return round_created_; }
  const TaskRecord& task(uint32_t number) const { return tasks_[number - 1]; }
  std::string ContributorOf(uint32_t number) const;
  // The same without a new string: the result may be in `buffer`.
  const std::string& ContributorOf(uint32_t number, std::string& buffer) const;
  uint64_t unfinished() const { return available_count_ + leased_count_; }
  uint64_t CountOf(TaskState state) const;
  // Returns how often tasks of the group were leased.
  uint64_t leases() const { return leases_; }
  TaskGroupSnapshot Snapshot() const;
  // The state as of the last TaskTable::Keep(), if there was one.
  const TaskGroupSnapshot& committed() const { return *committed_; }
  bool is_committed() const { return committed_.has_value(); }

 private:
  friend class TaskTable;

  const TaskGroupInfo info_;
  const std::string contributor_prefix_;  // of the default contributors, "{prefix}/{number}"
  int64_t round_created_ = 0;
  std::vector<TaskRecord> tasks_;
  // The tasks to hand out: those from this number on that are not in the queue, then the queue.
  // Some of them may no longer be AVAILABLE.
  uint32_t next_untouched_ = 1;
  std::deque<uint32_t> queue_;
  std::vector<bool> is_queued_;  // by number - 1
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  bool is_suspended_ = false;  // see TaskTable::Suspend()
  uint64_t available_count_ = 0;
  uint64_t leased_count_ = 0;
  uint64_t completed_count_ = 0;
  uint64_t failed_count_ = 0;
  uint64_t cancelled_count_ = 0;
  uint64_t leases_ = 0;
  uint64_t record_bytes_ = 0;  // TaskRecord::bytes() of all tasks
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
