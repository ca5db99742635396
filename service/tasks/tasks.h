// The task service: owners leave tasks, workers acquire them under leases, and the updates that the
// rounds count complete them. docs/tasks.md describes it. It knows no network protocol; a round is
// known to it by its state and by the updates that the store has accepted.
//
// Every call is one step of a group commit: the calls that wait are applied to the table one after
// the other, what they changed is stored in one transaction, and then all of them are answered. If
// it cannot be stored, the table is as it was, and calls that only read are answered from that.
// What has become of rounds is applied in steps of its own, before the calls.
#ifndef SPARSEAGG_SERVICE_TASKS_TASKS_H_
#define SPARSEAGG_SERVICE_TASKS_TASKS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/engine/observer.h"
#include "service/store/group_commit.h"
#include "service/store/store.h"
#include "service/store/task_row_store.h"
#include "service/tasks/poll_pacer.h"
#include "service/tasks/task_limits.h"
#include "service/tasks/task_names.h"
#include "service/tasks/task_table.h"
#include "service/tasks/task_types.h"
#include "service/tasks/task_watchers.h"

namespace sparseagg {

// The properties of a round that its tasks depend on.
struct RoundOfTasks {
  RoundState state = RoundState::kOpen;
  // RoundSnapshot::create_time in its own unit, which tells the round from an earlier one that had
  // its name; 0: unknown.
  int64_t created = 0;
  Durability durability = Durability::kMemory;
  uint64_t goal_contributors = 0;  // of its policy; 0: none
  bool has_leaves = false;         // updates are counted at these, and not here
};

// Facts for logs, after they have happened. Thread-safe; called on the thread of the call that made
// the change, without locks held, except OnFinished(), which any thread may call.
class TaskObserver {
 public:
  virtual ~TaskObserver() = default;
  virtual void OnCreated(const TaskGroupSnapshot& /*group*/) {}
  virtual void OnCancelled(const std::string& /*tenant*/, const std::vector<std::string>& /*names*/,
                           uint64_t /*tasks*/) {}
  // The last task of the group has ended.
  virtual void OnFinished(const TaskGroupSnapshot& /*group*/) {}
};

struct TaskOptions {
  TaskLimits limits;
  // The most tasks of a tenant, 0: no limit but tasks_max. If unset, limits.tenant_tasks_max.
  std::function<uint64_t(std::string_view tenant)> tenant_tasks_max;
  // For how long requests are recognised whose tasks were forgotten, or whose leases have ended.
  uint64_t retry_horizon_ms = uint64_t{7} * 24 * 3600 * 1000;
  std::function<std::chrono::system_clock::time_point()> now = [] {
    return std::chrono::system_clock::now();
  };
  std::function<std::chrono::steady_clock::time_point()> steady_now = [] {
    return std::chrono::steady_clock::now();
  };
  std::function<uint64_t()> random;  // null: the system's source
  std::shared_ptr<TaskObserver> observer = std::make_shared<TaskObserver>();
};

// What was lost when the stored tasks were restored.
struct TaskRecovery {
  std::vector<std::string> damaged_groups;  // qualified; they are forgotten
  uint64_t damaged_tasks = 0;               // CANCELLED (STORE_CORRUPT)
  // Damaged rows with the key of a healthy one. They stay; what they were of is not known.
  uint64_t ignored_rows = 0;
  // The clock of leases was lost and goes on where the newest lease began, so that no lease lasts
  // longer than its duration from now.
  bool is_clock_lost = false;
  uint64_t bounded_leases = 0;  // leases that were shortened to the duration of their group
};

// Thread-safe. Names are those that callers see; every call states the tenant. Calls wait for the
// disk if there are rows. Every error carries a reason (docs/api.md).
class Tasks : public EngineObserver {
 public:
  // `rows` keeps the tasks of durable rounds; without it, they are in memory like all others.
  // Both stores must outlive this.
  Tasks(TaskOptions options, const UpdateStore& store, TaskRowStore* rows);

  // Restores what the store has kept. Call it once, before the other calls and after the engine has
  // recovered its rounds. `find_round` takes qualified names and returns NOT_FOUND for a round that
  // does not exist, UNAVAILABLE for one that is out of use until the next start: its tasks stay,
  // and nobody gets them before.
  absl::StatusOr<TaskRecovery> Recover(
      std::function<absl::StatusOr<RoundOfTasks>(const std::string&)> find_round);

  // --- For owners ---

  // Errors of the arguments (task_names.h); those of the round; ROUND_NOT_OPEN; TREE_TASKS;
  // TASK_GROUP_EXISTS; REQUEST_ID_CONFLICT; TASK_GROUP_NOT_FOUND for a request of which a group was
  // forgotten; TASKS_FULL, TENANT_TASKS_FULL, TASK_BYTES_FULL. After an error nothing is created.
  absl::StatusOr<std::vector<TaskGroupSnapshot>> Create(const CreateTasksArgs& args);
  absl::StatusOr<TaskSnapshot> Get(const std::string& tenant, const TaskViewer& viewer,
                                   const std::string& name);
  // A call looks at 20,000 tasks and groups at most, so that a page may be short or empty although
  // it has a next_page_token.
  absl::StatusOr<TaskPage> List(const std::string& tenant, const TaskViewer& viewer,
                                const ListTasksArgs& args);
  // Returns how many tasks it cancelled. An unknown name changes nothing.
  absl::StatusOr<uint64_t> Cancel(const std::string& tenant, const std::vector<std::string>& names);

  // The state of a group as it is stored. Does not wait for the disk.
  absl::StatusOr<TaskGroupSnapshot> GetGroup(const std::string& tenant, std::string_view name);
  // Calls `on_change` when a task of the group enters a final state, and when it is forgotten.
  absl::StatusOr<std::shared_ptr<void>> Watch(const std::string& tenant, std::string_view name,
                                              OnTaskGroup on_change);

  // --- For workers ---

  absl::StatusOr<AcquiredTasks> Acquire(const std::string& tenant, const AcquireArgs& args);
  // Each lease has its own outcome. Errors: TASK_FENCED, TASK_NOT_FOUND.
  absl::StatusOr<std::vector<absl::StatusOr<TaskLease>>> Renew(
      const std::string& tenant, const TaskViewer& viewer, std::span<const TaskLeaseKey> leases);
  // Each of the two returns the task without its payload. TASK_FENCED, TASK_NOT_FOUND,
  // UPDATE_NOT_COUNTED, RECEIPT_MISMATCH.
  absl::StatusOr<TaskSnapshot> Complete(const std::string& tenant, const TaskViewer& viewer,
                                        const TaskLeaseKey& lease, const Receipt& receipt);
  absl::StatusOr<TaskSnapshot> Fail(const std::string& tenant, const TaskViewer& viewer,
                                    const TaskLeaseKey& lease, const FailArgs& args);
  // Returns whether a worker of this principal holds a task of that round and contributor, so that
  // it may submit the update. Does not wait for the disk.
  bool MaySubmit(const std::string& tenant, std::string_view principal, std::string_view round,
                 std::string_view contributor);

  // --- For the server ---

  // Ends leases and tasks whose time is over, or whose round has closed. Every other call does so,
  // too; call this about every second for those that wait.
  void Tick();
  TaskStats Stats();
  const TaskLimits& limits() const { return options_.limits; }
  bool waits_for_disk() const { return rows_ != nullptr; }

  // Learns that a round has closed, was deleted, or is out of use until the next start.
  void OnRoundState(const RoundSnapshot& round) override;

 private:
  // What a call learns and says while it is applied.
  struct Step {
    TaskTime now;
    bool adds_work = false;  // the step is refused while the disk is nearly full
    // The answer holds also if the step cannot be stored.
    bool holds_unstored = false;
  };
  using Work = std::function<absl::Status(Step&)>;
  struct Operation {
    Work run;
    bool only_reads = false;
    bool holds_unstored = false;
    absl::Status result = absl::UnknownError("not committed");
  };
  // Tells a round from others of its name by `created`; 0: any.
  struct RoundEnd {
    std::string round;  // qualified
    int64_t created = 0;
    bool deleted = false;
    bool suspended = false;  // the next start may open it again
  };
  struct EndedGroup {
    TaskGroup* group = nullptr;
    bool deleted = false;
    bool suspended = false;
  };
  // What happens after a commit, without a lock.
  struct Announcement {
    std::string group;                     // qualified
    std::optional<TaskGroupSnapshot> now;  // nullopt: forgotten
    bool has_finished = false;
  };
  // A step that is applied and not yet stored.
  struct Pending {
    TaskTime now;
    std::vector<TaskRow> rows;
    // Tenants and request ids whose rows are deleted.
    std::vector<std::pair<std::string, std::string>> forgotten_creations;
    bool adds_work = false;
    std::set<TaskGroup*> forgotten;
  };
  absl::Status Run(Work run) { return RunOperation({.run = std::move(run)}); }
  // The same for a call that changes nothing.
  absl::Status Read(Work run) { return RunOperation({.run = std::move(run), .only_reads = true}); }
  absl::Status RunOperation(Operation operation);
  void CommitGroup(std::span<Operation* const> operations);
  // Each returns the error of the store.
  absl::Status ApplyEnds();
  absl::Status Attempt(std::span<Operation* const> operations);
  absl::Status Store(const Pending& pending);
  // Answers operations that could not be stored.
  void Refuse(std::span<Operation* const> operations, const absl::Status& why);
  // The following functions require table_mutex_.
  TaskTime NowLocked() const;
  // The groups of rounds that have ended, in the order of their creation.
  std::vector<EndedGroup> EndedGroupsLocked(const std::vector<RoundEnd>& ends);
  void AddRowsLocked(Pending& pending);
  void AddRowsOfForgottenLocked(Pending& pending);
  void KeepLocked(const Pending& pending, std::vector<Announcement>& announcements);
  void Announce(const std::vector<Announcement>& announcements);
  void AddEnd(const RoundEnd& end);
  // Adds the end of a round if it is not the open round that it was.
  void CheckRound(const std::string& round, int64_t created);

  // Adds the groups of Create(), or returns those that the request has created before.
  absl::StatusOr<std::vector<TaskGroup*>> AddGroups(
      const CreateTasksArgs& args, const std::vector<absl::StatusOr<RoundOfTasks>>& rounds,
      Step& step);
  absl::Status CheckRoom(const std::string& tenant, const std::vector<TaskGroupInfo>& infos) const;
  absl::StatusOr<TaskGroupInfo> InfoOf(const CreateTasksArgs& args, const TaskGroupSpec& spec,
                                       const RoundOfTasks& round, const TaskTime& now);
  TaskPage ListLocked(const std::string& tenant, const TaskViewer& viewer,
                      const ListTasksArgs& args, const TaskName& after, const TaskTime& now) const;
  std::string NewGroupId(const std::string& tenant);
  absl::Status CheckReceipt(const TaskId& id, const Receipt& receipt) const;
  absl::Status CheckRequest(const CreateTasksArgs& args, const std::string& digest,
                            const std::vector<TaskGroup*>& groups) const;
  // Returns what must be stored after the rows were read.
  absl::StatusOr<Pending> RestoreLocked(TaskRecovery& recovery);
  // Finds out what has become of the rounds of all groups.
  void CheckRounds();

  const TaskOptions options_;
  const UpdateStore& store_;
  TaskRowStore* const rows_;  // null: everything is in memory
  std::function<uint64_t()> random_;
  std::function<absl::StatusOr<RoundOfTasks>(const std::string&)> find_round_;
  TaskWatchers watchers_;

  std::mutex ends_mutex_;
  // Not yet applied, by round and its creation.
  std::map<std::pair<std::string, int64_t>, RoundEnd> ends_;

  // Only the thread of a group commit changes the table, and it holds the mutex while it does, but
  // not while it waits for the disk.
  std::mutex table_mutex_;
  TaskTable table_;
  PollPacers pacers_;
  std::chrono::steady_clock::time_point clock_start_;
  int64_t clock_base_ms_ = 0;
  int64_t clock_stored_ms_ = 0;

  GroupCommit<Operation> commits_{
      [this](std::span<Operation* const> operations) { CommitGroup(operations); }};
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TASKS_TASKS_H_
