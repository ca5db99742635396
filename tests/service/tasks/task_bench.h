// Tasks on a real store, without an engine: rounds are what the test says, and an update is one row
// of the store. Time moves only when the test moves it.
#ifndef SPARSEAGG_TESTS_SERVICE_TASKS_TASK_BENCH_H_
#define SPARSEAGG_TESTS_SERVICE_TASKS_TASK_BENCH_H_

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "service/engine/names.h"
#include "service/store/durable_store.h"
#include "service/store/store.h"
#include "service/tasks/task_names.h"
#include "service/tasks/tasks.h"

namespace sparseagg::testing {

class TaskBench {
 public:
  // `folder` of the durable store; empty: a store in memory.
  explicit TaskBench(std::string folder = "", FailpointHook hook = {})
      : folder_(std::move(folder)), hook_(std::move(hook)) {}

  // Starts the server, or starts it again on what the last one left. Rounds in memory are gone.
  absl::Status Start() {
    tasks_.reset();
    store_.reset();
    rows_ = nullptr;
    if (folder_.empty()) {
      store_ = MakeMemoryStore();
    } else {
      SPARSEAGG_ASSIGN_OR_RETURN(auto durable, OpenDurableStore({.directory = folder_,
                                                                 .free_bytes_min = free_bytes_min,
                                                                 .failpoints = hook_}));
      rows_ = durable.get();
      store_ = std::move(durable);
    }
    TaskOptions options{.limits = limits, .retry_horizon_ms = retry_horizon_ms};
    options.now = [this] { return wall_; };
    options.steady_now = [this] { return steady_; };
    options.random = [this] { return ++random_; };
    tasks_ = std::make_unique<Tasks>(std::move(options), *store_, rows_);
    steady_ += recovery_time;
    auto recovered =
        tasks_->Recover([this](const std::string& round) -> absl::StatusOr<RoundOfTasks> {
          if (rounds_of_store) return FindInStore(round);
          if (out_of_use.contains(round)) return absl::UnavailableError("there is no memory");
          const auto found = rounds.find(round);
          if (found != rounds.end()) return found->second;
          return MakeError(absl::StatusCode::kNotFound, "ROUND_NOT_FOUND", round);
        });
    if (!recovered.ok()) return recovered.status();
    recovery = *std::move(recovered);
    return absl::OkStatus();
  }
  // The process ends without a word.
  void Kill() {
    tasks_.reset();
    store_.reset();
  }
  // The next start is on this folder.
  void MoveTo(std::string folder) { folder_ = std::move(folder); }

  Tasks& tasks() { return *tasks_; }
  UpdateStore& store() { return *store_; }
  TaskRowStore& rows() { return *rows_; }  // REQUIRES: a folder

  // Time in which the server runs.
  void Pass(std::chrono::milliseconds time) {
    steady_ += time;
    wall_ += time;
  }
  std::chrono::system_clock::time_point wall() const { return wall_; }
  std::chrono::steady_clock::time_point steady() const { return steady_; }

  void OpenRound(const std::string& round, Durability durability = Durability::kMemory,
                 uint64_t goal = 0) {
    rounds[round] = {
        .created = created_of_rounds, .durability = durability, .goal_contributors = goal};
    store_->OpenRound({.name = round, .durability = durability}).IgnoreError();
  }
  void EndRound(const std::string& round, RoundState state) {
    if (state == RoundState::kSealed) store_->CloseRound(round, "").IgnoreError();
    if (state == RoundState::kRetired) {
      rounds.erase(round);
    } else {
      rounds[round].state = state;
    }
    Tell(round, state, created_of_rounds);
  }
  // The round fails, and the next start may restore it.
  void Suspend(const std::string& round) {
    out_of_use.insert(round);
    Tell(round, RoundState::kAborted, created_of_rounds, /*may_open_again=*/true);
  }
  // What the engine tells of a round.
  void Tell(const std::string& round, RoundState state, int64_t created,
            bool may_open_again = false) {
    RoundSnapshot snapshot;
    snapshot.may_open_again = may_open_again;
    snapshot.create_time =
        std::chrono::system_clock::time_point(std::chrono::system_clock::duration(created));
    snapshot.tenant = TenantOf(round);
    snapshot.name = PublicName(round);
    snapshot.state = state;
    tasks_->OnRoundState(snapshot);
  }
  // Counts an update of the contributor, as the engine does.
  absl::StatusOr<Receipt> Submit(const std::string& round, const std::string& contributor,
                                 const std::string& update_id = "u") {
    const UpdateRecord record{.round = round,
                              .contributor = contributor,
                              .update_id = update_id,
                              .digest = std::string(32, update_id[0])};
    SPARSEAGG_ASSIGN_OR_RETURN(const PutResult put, store_->Put(record, {}));
    return Receipt{.round = std::string(PublicName(round)),
                   .contributor = contributor,
                   .update_id = update_id,
                   .digest = put.record.digest};
  }

  absl::StatusOr<AcquiredTasks> Acquire(const std::string& worker, uint32_t max = 1,
                                        const std::string& request_id = "") {
    return tasks_->Acquire(
        tenant, {.worker = worker, .pools = {"pool"}, .max = max, .request_id = request_id});
  }
  // The next task for the worker. REQUIRES: there is one.
  TaskSnapshot Take(const std::string& worker) { return Acquire(worker).value().tasks.at(0); }
  absl::StatusOr<TaskSnapshot> Complete(const TaskSnapshot& task, const Receipt& receipt) {
    return tasks_->Complete(tenant, {}, {task.name, task.lease->token}, receipt);
  }
  absl::StatusOr<TaskSnapshot> Fail(const TaskSnapshot& task, const FailArgs& args) {
    return tasks_->Fail(tenant, {}, {task.name, task.lease->token}, args);
  }
  absl::Status Renew(const TaskSnapshot& task) {
    const TaskLeaseKey lease{task.name, task.lease->token};
    SPARSEAGG_ASSIGN_OR_RETURN(const auto renewed, tasks_->Renew(tenant, {}, {&lease, 1}));
    return renewed.at(0).status();
  }
  TaskSnapshot Get(const std::string& name) { return tasks_->Get(tenant, {}, name).value(); }
  TaskGroupSnapshot Group(const std::string& name) {
    return tasks_->GetGroup(tenant, name).value();
  }
  // One group of `count` tasks; the others of the specification may be changed before.
  absl::Status Create(const std::string& id, uint32_t count, const std::string& round = "rounds/r",
                      TaskGroupSpec spec = {}) {
    spec.group_id = id;
    spec.pool = "pool";
    spec.round = round;
    spec.count = count;
    return tasks_->Create({.tenant = tenant, .groups = {spec}}).status();
  }

  TaskLimits limits;
  uint64_t retry_horizon_ms = TaskOptions().retry_horizon_ms;
  std::string tenant{kDefaultTenant};
  std::map<std::string, RoundOfTasks> rounds;  // by qualified name
  std::set<std::string> out_of_use;  // of `rounds`, those that are not there until a later start
  int64_t created_of_rounds = 0;     // RoundOfTasks::created of those that are opened and ended
  uint64_t free_bytes_min = 0;       // of the disk, from the next start on
  std::chrono::milliseconds recovery_time{0};  // that the engine takes at the next start
  bool rounds_of_store = false;  // the state of a round is what the store has, not `rounds`
  TaskRecovery recovery;         // of the last start

 private:
  absl::StatusOr<RoundOfTasks> FindInStore(const std::string& name) const {
    for (const RoundRecord& round : store_->Rounds()) {
      if (round.name != name) continue;
      const bool open = round.phase == RoundPhase::kOpen;
      return RoundOfTasks{.state = open ? RoundState::kOpen : RoundState::kSealed,
                          .durability = Durability::kDurable};
    }
    return MakeError(absl::StatusCode::kNotFound, "ROUND_NOT_FOUND", name);
  }

  std::string folder_;
  const FailpointHook hook_;
  // With a part below a millisecond, as clocks have it.
  std::chrono::system_clock::time_point wall_{std::chrono::hours(24 * 365 * 50) +
                                              std::chrono::microseconds(123'456)};
  std::chrono::steady_clock::time_point steady_{std::chrono::hours(1)};
  uint64_t random_ = 0;
  std::unique_ptr<UpdateStore> store_;
  TaskRowStore* rows_ = nullptr;  // of the store
  std::unique_ptr<Tasks> tasks_;
};

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SERVICE_TASKS_TASK_BENCH_H_
