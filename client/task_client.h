// The client of a server's task service (docs/tasks.md). Owners leave tasks for workers; a worker:
//
//   auto tasks = TaskClient::Connect("127.0.0.1:50061");
//   auto acquired = (*tasks)->Acquire({.worker = "w1", .pools = {"train"}});
//   if (acquired->tasks.empty()) ...  // wait for a time drawn from acquired->retry
//   const TaskInfo& task = acquired->tasks[0];
//   auto receipt = client->Submit(task.round, {.contributor = task.contributor, ...});
//   (*tasks)->Complete(task.lease, *receipt);
//
// A client has one connection. Renew leases from another client than the one that sends updates, so
// that no large update delays the heartbeat. Errors and retries are those of client.h; every call
// is safe to repeat.
#ifndef SPARSEAGG_CLIENT_TASK_CLIENT_H_
#define SPARSEAGG_CLIENT_TASK_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/types.h"

namespace sparseagg::client {

enum class TaskState : uint8_t { kAvailable = 1, kLeased, kCompleted, kFailed, kCancelled };
std::string_view TaskStateName(TaskState state);  // "AVAILABLE"
// Returns nullopt for a name that is none.
std::optional<TaskState> ParseTaskState(std::string_view name);

// A lease, as the calls that need it take it.
struct TaskLease {
  std::string task;    // name of the task
  uint64_t token = 0;  // 0: no lease
  std::chrono::milliseconds time_left{0};
  std::chrono::milliseconds duration{0};
};

struct TaskInfo {
  std::string name;  // "taskgroups/{group}/tasks/{number}"
  std::string pool;
  std::string round;        // "rounds/{id}"
  std::string contributor;  // whose update completes the task
  std::string payload;      // not in lists
  TaskState state = TaskState::kAvailable;
  TaskLease lease;     // while LEASED
  std::string worker;  // who holds the task, or held it last
  uint32_t attempts = 0;
  uint32_t attempts_max = 0;
  uint64_t leases = 0;
  std::optional<Time> create_time;
  std::optional<Time> end_time;
  std::optional<Time> deadline;
  std::string end_reason;  // of a FAILED or CANCELLED task: "DEADLINE", ...
  std::string last_failure;
};

// A group of tasks of one round, with its tasks by state.
struct TaskGroupInfo {
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
  uint64_t revision = 0;
  Durability durability = Durability::kServerDefault;

  bool finished() const { return available == 0 && leased == 0; }
};

// What to create. One of count, percent_of_goal and contributors says how many tasks there are.
struct NewTaskGroup {
  std::string id;  // empty: the server chooses one
  std::string pool;
  std::string round;  // "rounds/{id}" or "{id}"
  uint32_t count = 0;
  uint32_t percent_of_goal = 0;
  std::vector<std::string> contributors;
  std::string payload;
  std::vector<std::string> required_capabilities;
  std::optional<std::chrono::milliseconds> lease;  // unset: the server's default, 60 s
  uint32_t attempts_max = 0;                       // 0: the server's default, 3
  // At most one of these may be set.
  std::optional<std::chrono::milliseconds> open_for;
  std::optional<Time> open_until;
};

// Which tasks to list. An empty or unset field restricts nothing.
struct TaskFilter {
  std::string group;
  std::string pool;
  std::optional<TaskState> state;
};

struct AcquireRequest {
  std::string worker;
  std::vector<std::string> pools;
  std::vector<std::string> capabilities;
  uint32_t max = 1;
  std::string request_id;  // empty: chosen for each call
};

struct AcquiredTasks {
  std::vector<TaskInfo> tasks;
  // Without tasks: ask again after a time drawn uniformly from [retry_min, retry_max].
  std::chrono::milliseconds retry_min{0};
  std::chrono::milliseconds retry_max{0};
};

// Thread-safe. Names of groups are "taskgroups/{id}" or "{id}", of tasks
// "taskgroups/{id}/tasks/{n}" or "{id}/{n}".
class TaskClient {
 public:
  // The errors are those of Client::Connect().
  static absl::StatusOr<std::unique_ptr<TaskClient>> Connect(const std::string& target,
                                                             ClientOptions options = {});
  ~TaskClient();

  // Creates all groups or none. A repeated call with the same request_id returns the first's.
  absl::StatusOr<std::vector<TaskGroupInfo>> Create(std::span<const NewTaskGroup> groups,
                                                    const std::string& request_id = "");
  absl::StatusOr<TaskInfo> Get(const std::string& task);
  absl::StatusOr<std::vector<TaskInfo>> List(const TaskFilter& filter = {});
  // Ends tasks, or all tasks of groups, that are not finished. Returns how many it ended.
  absl::StatusOr<uint64_t> Cancel(std::span<const std::string> names);
  // Waits until all tasks of the group are finished, or until its revision exceeds `after_revision`
  // (0: only the end), at most `timeout_ms`; then returns its state. With a timeout of 0 it returns
  // at once.
  absl::StatusOr<TaskGroupInfo> Wait(const std::string& group, uint64_t after_revision,
                                     uint64_t timeout_ms);

  absl::StatusOr<AcquiredTasks> Acquire(const AcquireRequest& request);
  // Returns the outcome of each lease. TASK_FENCED: abandon the task.
  absl::StatusOr<std::vector<absl::StatusOr<TaskLease>>> Renew(std::span<const TaskLease> leases);
  absl::StatusOr<TaskInfo> Complete(const TaskLease& lease, const Receipt& receipt);
  absl::StatusOr<TaskInfo> Fail(const TaskLease& lease, const std::string& reason, bool retryable);
  // Gives the task back; the lease does not count as an attempt.
  absl::StatusOr<TaskInfo> HandBack(const TaskLease& lease);

 private:
  struct Impl;
  explicit TaskClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TASK_CLIENT_H_
