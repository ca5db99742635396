// All task groups and their tasks in memory, with every transition of a task. It knows no store, no
// lock and no clock: each call gets the time, and what it changes is in a journal, so that the
// caller can store the changes and then keep them or take them back.
#ifndef SPARSEAGG_SERVICE_TASKS_TASK_TABLE_H_
#define SPARSEAGG_SERVICE_TASKS_TASK_TABLE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/tasks/request_memory.h"
#include "service/tasks/task_group.h"
#include "service/tasks/task_types.h"

namespace sparseagg {

// Thread-compatible.
class TaskTable {
 public:
  // Returns whether the round has counted an update of the contributor.
  using Counted = std::function<bool(const std::string& round, const std::string& contributor)>;

  // Texts of failures are kept while bytes() is at most `text_bytes_max`.
  TaskTable(Counted counted, uint64_t text_bytes_max)
      : counted_(std::move(counted)), text_bytes_max_(text_bytes_max) {}
  // The next lease gets this token. REQUIRES: no lease has had it.
  void StartTokensAt(uint64_t token) { next_token_ = token; }

  // --- What there is ---

  TaskGroup* FindGroup(std::string_view qualified_name);
  // TASK_NOT_FOUND, TASK_GROUP_NOT_FOUND, INVALID_TASK_NAME.
  absl::StatusOr<TaskId> FindTask(std::string_view tenant, std::string_view name);
  // The groups of a round; `created` tells it from others of its name, 0: all of them.
  std::vector<TaskGroup*> GroupsOfRound(const std::string& qualified_round, int64_t created);
  const std::map<std::string, std::unique_ptr<TaskGroup>, std::less<>>& groups() const {
    return groups_;
  }
  // The groups that the request created and that exist, or none.
  std::vector<TaskGroup*> GroupsOfRequest(std::string_view tenant, const std::string& request_id);
  // The digest of a request of which a group was forgotten; null: not remembered.
  const std::string* ForgottenRequest(std::string_view tenant,
                                      const std::string& request_id) const {
    return creations_.Find(tenant, request_id);
  }
  uint64_t tasks() const { return tasks_; }
  bool has_leases() const { return !lease_ends_.empty(); }
  uint64_t TasksOf(std::string_view tenant) const;
  // What counts against task-bytes-max.
  uint64_t bytes() const { return bytes_; }
  uint64_t next_order() const { return next_order_; }
  TaskSnapshot Snapshot(const TaskId& id, const TaskTime& now) const;
  // Returns whether a worker of that principal holds a task of this round and contributor.
  bool HoldsTask(std::string_view tenant, std::string_view principal, std::string_view round,
                 std::string_view contributor, const TaskTime& now) const;
  TaskStats Stats() const;

  // --- Transitions; all of them go into the journal ---

  // Adds a group whose tasks are AVAILABLE. REQUIRES: there is none of that name.
  TaskGroup& Add(TaskGroupInfo info, const TaskTime& now);
  // Ends the leases and passes the deadlines that are over. Ends at most 20,000 leases, so that a
  // step stays short; a lease that is over is fenced also before it is ended.
  void Advance(const TaskTime& now);
  struct Acquired {
    std::vector<TaskId> tasks;
    bool is_new = false;  // the leases began now
  };
  // Leases at most args.max tasks. A repeated request id gets the leases of the first call that are
  // still valid, and never new ones.
  Acquired Acquire(std::string_view tenant, const AcquireArgs& args, const TaskTime& now);
  absl::Status Renew(const TaskId& id, uint64_t token, const TaskTime& now);
  // Each returns TASK_FENCED for a token that is not of the task's lease, except for a repeated
  // call. Complete() also returns UPDATE_NOT_COUNTED.
  absl::Status Complete(const TaskId& id, uint64_t token, const TaskTime& now);
  absl::Status Fail(const TaskId& id, uint64_t token, const FailArgs& args, const TaskTime& now);
  // Ends an unfinished task for `why`, unless its update is counted. Returns whether it did.
  bool Cancel(const TaskId& id, TaskEnd why, const TaskTime& now);
  // Ends all unfinished tasks of a group. Returns how many, without those whose update is counted.
  uint64_t CancelAll(TaskGroup& group, TaskEnd why, const TaskTime& now);
  // Hands out no more tasks of the group while this table exists, and makes those that are LEASED
  // AVAILABLE as if their workers had handed them back. That it is suspended is not in the journal.
  void Suspend(TaskGroup& group, const TaskTime& now);

  // --- The journal ---

  // The tasks that have changed, with what they were before; and the groups that ended as a whole.
  const std::map<TaskId, TaskRecord>& changed() const { return changed_; }
  struct EndedGroup {
    TaskGroup* group = nullptr;
    TaskGroupEnd end;
    std::vector<uint32_t> available;  // the numbers of the tasks that were AVAILABLE, and LEASED
    std::vector<uint32_t> leased;
  };
  const std::vector<EndedGroup>& ended() const { return ended_; }
  const std::vector<TaskGroup*>& added() const { return added_; }
  struct Kept {
    TaskGroup* group = nullptr;
    uint64_t revision_before = 0;
  };
  // Returns the groups that were changed or added.
  std::vector<Kept> Keep();
  void TakeBack();  // the counts of stats(), too

  // --- Without the journal ---

  // Sets a task as it was stored.
  void Restore(const TaskId& id, TaskRecord record, const TaskTime& now);
  // REQUIRES: Keep() was called after the group was added.
  void RestoreEnd(TaskGroup& group, const TaskGroupEnd& end);
  void RestoreForgottenRequest(std::string_view tenant, const std::string& request_id,
                               std::string digest, int64_t forgotten_ms);
  // Shortens the leases that would last longer than the leases of their groups do. Returns how
  // many.
  uint64_t BoundLeases(int64_t lease_now_ms);
  void SetRoundCreated(TaskGroup& group, int64_t created) { group.round_created_ = created; }
  // Forgets a group. Its creation is remembered by its request id. REQUIRES: its tasks have ended.
  void Forget(TaskGroup& group, const TaskTime& now);
  // Forgets the requests since before `time_ms`.
  void ForgetRequests(int64_t time_ms);
  // Returns the creations that were forgotten since the last call: tenants and request ids.
  std::vector<std::pair<std::string, std::string>> TakeForgottenCreations() {
    return std::exchange(forgotten_creations_, {});
  }
  // Gives back what could not be stored; the next call returns it again.
  void GiveBackForgottenCreations(
      const std::vector<std::pair<std::string, std::string>>& creations) {
    forgotten_creations_.insert(forgotten_creations_.end(), creations.begin(), creations.end());
  }

 private:
  using ByOrder = std::map<uint64_t, TaskGroup*>;
  // The groups of a pool that have an AVAILABLE task and are not suspended, by the capabilities
  // that they require.
  using Pool = std::map<std::vector<std::string>, ByOrder>;
  struct Nothing {};

  // The key of an index of one tenant's things. A tenant has no space in its name.
  static std::string TenantKey(std::string_view tenant, std::string_view word);

  TaskRecord& RecordOf(const TaskId& id) { return id.group->tasks_[id.number - 1]; }
  // Replaces a task's record, here and in the indexes.
  void Set(const TaskId& id, TaskRecord record);
  void Change(const TaskId& id, TaskRecord record);
  void Enter(const TaskId& id, const TaskRecord& record);
  void Leave(const TaskId& id, const TaskRecord& record);
  void EnterAvailable(TaskGroup& group);
  void LeaveAvailable(TaskGroup& group);
  void EnterLease(const TaskId& id, const TaskRecord& record);
  void LeaveLease(const TaskId& id, const TaskRecord& record);
  uint64_t& CountOf(TaskGroup& group, TaskState state);
  void Erase(TaskGroup& group);
  // Makes the present state of a group the one that is kept.
  static void Commit(TaskGroup& group);

  // Ends a task, or its lease; see the diagram of task_types.h.
  void Finish(const TaskId& id, TaskState state, TaskEnd why, const TaskTime& now);
  // Ends the unfinished tasks of a group; those of which `is_completed(number)` are COMPLETED.
  EndedGroup EndAll(TaskGroup& group, TaskGroupEnd end,
                    const std::function<bool(uint32_t)>& is_completed);
  void TakeBackEnd(const EndedGroup& ended);
  bool IsCounted(const TaskId& id) const;
  // Completes a task without its worker's CompleteTask, if its update is counted.
  bool CompleteIfCounted(const TaskId& id, const TaskTime& now);
  void MakeAvailable(const TaskId& id, TaskRecord record, const TaskTime& now);
  absl::Status CheckToken(const TaskId& id, uint64_t token, const TaskTime& now);
  void Lease(const TaskId& id, const AcquireArgs& args, const RequestKey& request,
             const TaskTime& now);
  // Returns the text, or a short one in its place when texts have taken their memory.
  std::string TextToKeep(std::string text) const;
  // Returns the first group of the pool that the worker can do tasks of, or null.
  static TaskGroup* FirstOf(const Pool& pool, const std::vector<std::string>& capabilities);
  // Takes the next task of the group that is still to be done; 0: none.
  uint32_t TakeNext(TaskGroup& group, const TaskTime& now);
  uint32_t PopNext(TaskGroup& group);
  void AcquireFrom(std::string_view pool_key, const AcquireArgs& args, const RequestKey& request,
                   const TaskTime& now, std::vector<TaskId>& taken, uint64_t& bytes);
  // The leases of the request that are still valid.
  std::vector<TaskId> LeasesOfRequest(std::string_view tenant, const AcquireArgs& args,
                                      const RequestKey& request, const TaskTime& now) const;

  const Counted counted_;
  const uint64_t text_bytes_max_;
  uint64_t next_token_ = 1;
  uint64_t next_order_ = 1;
  uint64_t tasks_ = 0;
  uint64_t bytes_ = 0;
  TaskStats stats_;
  TaskStats kept_stats_;

  std::map<std::string, std::unique_ptr<TaskGroup>, std::less<>> groups_;
  std::map<std::string, uint64_t, std::less<>> tasks_of_tenant_;
  std::map<std::string, ByOrder, std::less<>> groups_of_round_;
  std::map<std::string, ByOrder, std::less<>> groups_of_request_;  // by tenant and id
  std::map<std::string, Pool, std::less<>> available_;             // by tenant and pool
  std::map<std::string, std::set<TaskId>, std::less<>> leased_;    // by tenant and worker
  std::set<std::pair<int64_t, TaskId>> lease_ends_;
  std::set<std::pair<std::chrono::steady_clock::time_point, TaskGroup*>> deadlines_;

  // By request id: the digest of a creation of which a group was forgotten.
  RequestMemory<std::string, std::string> creations_{10'000};
  RequestMemory<RequestKey, Nothing> acquisitions_{65'536};
  std::vector<std::pair<std::string, std::string>> forgotten_creations_;

  std::map<TaskId, TaskRecord> changed_;
  std::vector<EndedGroup> ended_;
  std::vector<TaskGroup*> added_;
  std::vector<std::pair<std::string, RequestKey>> acquired_;  // by tenant and request
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TASKS_TASK_TABLE_H_
