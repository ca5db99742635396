// The values that the task service takes and returns.
//
//              Acquire             Complete, or the round has counted the update
//  AVAILABLE ----------> LEASED ---------------------------------------------------> COMPLETED
//      ^                    |
//      +-- the lease ends --+---- not retryable, attempts, deadline ---------------> FAILED
//      +-- Fail, retryable -+---- Cancel, the round accepts no more updates -------> CANCELLED
//
// An AVAILABLE task can end in the three final states, too. Whenever a task leaves LEASED or would
// end, a counted update comes first: the task is COMPLETED.
#ifndef SPARSEAGG_SERVICE_TASKS_TASK_TYPES_H_
#define SPARSEAGG_SERVICE_TASKS_TASK_TYPES_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "service/engine/types.h"

namespace sparseagg {

// The numbers are stored and are those of the wire.
enum class TaskState : uint8_t { kAvailable = 1, kLeased, kCompleted, kFailed, kCancelled };
constexpr bool IsFinal(TaskState state) { return state >= TaskState::kCompleted; }
// "AVAILABLE", "LEASED", ...
std::string_view TaskStateName(TaskState state);

// The reason why a task is FAILED or CANCELLED. The numbers are stored.
enum class TaskEnd : uint8_t {
  kNone = 0,
  kAttemptsExhausted,
  kNotRetryable,
  kDeadline,
  kRequested,
  kRoundClosed,
  kStoreCorrupt,  // the row of the task was damaged
};
// "ATTEMPTS_EXHAUSTED", ...; empty for kNone.
std::string_view TaskEndName(TaskEnd end);

inline constexpr std::chrono::milliseconds kTaskLeaseDefault{60'000};
inline constexpr uint32_t kTaskAttemptsDefault = 3;

// What an owner specifies for a group: tasks that are created together for one round.
struct TaskGroupSpec {
  std::string group_id;  // empty: chosen by the server
  std::string pool;
  std::string round;  // without the tenant
  // One of the three says how many tasks there are.
  std::optional<uint32_t> count;
  std::optional<uint32_t> percent_of_goal;
  std::vector<std::string> contributors;
  std::string payload;
  std::vector<std::string> required_capabilities;
  std::chrono::milliseconds lease = kTaskLeaseDefault;
  uint32_t attempts_max = kTaskAttemptsDefault;
  // One of the two may be set.
  std::optional<std::chrono::milliseconds> open_for;
  std::optional<std::chrono::system_clock::time_point> open_until;
};

struct CreateTasksArgs {
  std::string tenant{kDefaultTenant};
  std::string request_id;  // empty: not idempotent
  std::vector<TaskGroupSpec> groups;
};

// Names a lease in a request of a worker.
struct TaskLeaseKey {
  std::string task;  // "taskgroups/{group}/tasks/{number}"
  uint64_t token = 0;
};

// One lease as the server tells it.
struct TaskLease {
  uint64_t token = 0;
  std::chrono::milliseconds time_left{0};
  std::chrono::milliseconds duration{0};
};

// The state of a task at one moment. Names are without the tenant.
struct TaskSnapshot {
  std::string name;
  std::string pool;
  std::string round;
  std::string contributor;
  std::shared_ptr<const std::string> payload;  // null in lists
  TaskState state = TaskState::kAvailable;
  std::optional<TaskLease> lease;  // while LEASED
  std::string worker;
  uint32_t attempts = 0;
  uint32_t attempts_max = 0;
  uint64_t leases = 0;
  std::chrono::system_clock::time_point create_time;
  std::optional<std::chrono::system_clock::time_point> end_time;
  std::optional<std::chrono::system_clock::time_point> deadline;
  TaskEnd end = TaskEnd::kNone;
  std::string last_failure;
};

struct TaskGroupSnapshot {
  std::string tenant;
  std::string name;  // "taskgroups/{group}"
  std::string pool;
  std::string round;
  uint64_t tasks = 0;
  uint64_t available = 0;
  uint64_t leased = 0;
  uint64_t completed = 0;
  uint64_t failed = 0;
  uint64_t cancelled = 0;
  uint64_t leases = 0;
  uint64_t revision = 0;  // from 1; increases with every task that enters a final state
  std::chrono::system_clock::time_point create_time;
  std::optional<std::chrono::system_clock::time_point> deadline;
  Durability durability = Durability::kMemory;

  bool finished() const { return available == 0 && leased == 0; }
};

// Whose tasks a caller sees: all of its tenant, or those that a worker of this name, or below it
// ("phone-1/app" below "phone-1"), holds or held last.
struct TaskViewer {
  std::optional<std::string> worker;

  bool Sees(std::string_view holder) const {
    if (!worker.has_value()) return true;
    if (!holder.starts_with(*worker)) return false;
    return holder.size() == worker->size() || holder[worker->size()] == '/';
  }
};

struct AcquireArgs {
  std::string worker;
  std::vector<std::string> pools;  // in the order of preference
  std::vector<std::string> capabilities;
  uint32_t max = 1;
  std::string request_id;  // empty: not idempotent
};

// When a worker that got nothing asks again: after a time drawn uniformly from the window.
struct RetryWindow {
  std::chrono::milliseconds min{0};
  std::chrono::milliseconds max{0};
};

struct AcquiredTasks {
  std::vector<TaskSnapshot> tasks;
  RetryWindow retry;  // if there are none
};

struct FailArgs {
  std::string reason;
  bool retryable = false;
  bool handed_back = false;
};

struct ListTasksArgs {
  std::string group;               // empty: all
  std::string pool;                // empty: all
  std::optional<TaskState> state;  // unset: all
  std::string page_token;          // the last name of the page before
  size_t page_size = 50;
};
struct TaskPage {
  std::vector<TaskSnapshot> tasks;
  std::string next_page_token;  // empty: no more
};

// What has happened since the start of the process, and what there is, of all tenants.
struct TaskStats {
  uint64_t groups = 0;
  uint64_t available = 0;
  uint64_t leased = 0;
  uint64_t finished = 0;       // of the groups that exist
  uint64_t payload_bytes = 0;  // what counts against task-bytes-max
  uint64_t acquired = 0;       // leases
  uint64_t polls = 0;          // acquisitions that found nothing
  uint64_t renewed = 0;
  uint64_t fenced = 0;  // calls refused for their token
  uint64_t handed_back = 0;
  uint64_t worker_failures = 0;  // FailTask, unless handed back
  uint64_t leases_ended = 0;     // leases whose time was over
  uint64_t completed = 0;
  // Of `completed`: tasks whose update was counted and whose worker did not complete them.
  uint64_t completed_by_update = 0;
  uint64_t failed = 0;
  uint64_t cancelled = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TASKS_TASK_TYPES_H_
