#include "service/server_tasks.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "service/engine/names.h"

namespace sparseagg {
namespace {

// Groups that are created, cancelled and finished have a line in the log, and the first two in the
// audit log.
class TaskEvents : public TaskObserver {
 public:
  TaskEvents(Log log, Protection& protection) : log_(std::move(log)), protection_(protection) {}

  void OnCreated(const TaskGroupSnapshot& group) override {
    const std::string tasks = absl::StrCat(group.tasks);
    log_.Info("tasks created", {{"group", QualifiedName(group.tenant, group.name)},
                                {"pool", group.pool},
                                {"round", group.round},
                                {"tasks", tasks}});
    protection_.RecordTasks("tasks_created", group.tenant,
                            {{"group", group.name}, {"round", group.round}, {"tasks", tasks}});
  }

  void OnCancelled(const std::string& tenant, const std::vector<std::string>& names,
                   uint64_t tasks) override {
    log_.Info("tasks cancelled", {{"tenant", tenant}, {"tasks", absl::StrCat(tasks)}});
    protection_.RecordTasks("tasks_cancelled", tenant,
                            {{"names", absl::StrJoin(names, " ")}, {"tasks", absl::StrCat(tasks)}});
  }

  void OnFinished(const TaskGroupSnapshot& group) override {
    log_.Info("tasks finished", {{"group", QualifiedName(group.tenant, group.name)},
                                 {"completed", absl::StrCat(group.completed)},
                                 {"failed", absl::StrCat(group.failed)},
                                 {"cancelled", absl::StrCat(group.cancelled)},
                                 {"leases", absl::StrCat(group.leases)}});
  }

 private:
  const Log log_;
  Protection& protection_;
};

}  // namespace

std::shared_ptr<Tasks> MakeTasks(const ServerConfig& config, Protection& protection, const Log& log,
                                 const UpdateStore& store, TaskRowStore* rows) {
  TaskOptions options{.limits = config.task_limits};
  options.retry_horizon_ms = config.limits.retry_horizon_ms;
  options.tenant_tasks_max = [&protection](std::string_view tenant) {
    return protection.TasksMaxOf(tenant);
  };
  options.observer = std::make_shared<TaskEvents>(log, protection);
  return std::make_shared<Tasks>(std::move(options), store, rows);
}

absl::Status RecoverTasks(Tasks& tasks, Engine& engine, const Log& log) {
  const auto find_round = [&engine](const std::string& name) -> absl::StatusOr<RoundOfTasks> {
    SPARSEAGG_ASSIGN_OR_RETURN(const RoundSnapshot round, engine.GetRound(name));
    if (round.may_open_again) return absl::UnavailableError(round.failure);
    return RoundOfTasks{.state = round.state,
                        .created = round.create_time.time_since_epoch().count(),
                        .durability = round.spec.durability,
                        .goal_contributors = round.spec.policy.goal_contributors,
                        .has_leaves = round.spec.tree.is_root()};
  };
  SPARSEAGG_ASSIGN_OR_RETURN(const TaskRecovery recovery, tasks.Recover(find_round));
  for (const std::string& group : recovery.damaged_groups) {
    log.Error("a stored task group is damaged and was forgotten; create its tasks again",
              {{"group", group}});
  }
  if (recovery.damaged_tasks > 0) {
    log.Error("stored tasks are damaged and were cancelled (STORE_CORRUPT)",
              {{"tasks", absl::StrCat(recovery.damaged_tasks)}});
  }
  if (recovery.ignored_rows > 0) {
    log.Error("damaged rows of tasks have the keys of healthy ones and were ignored",
              {{"rows", absl::StrCat(recovery.ignored_rows)}});
  }
  if (recovery.is_clock_lost || recovery.bounded_leases > 0) {
    log.Error(
        "the stored clock of leases is damaged; no lease lasts longer than its duration from now",
        {{"shortened_leases", absl::StrCat(recovery.bounded_leases)}});
  }
  return absl::OkStatus();
}

}  // namespace sparseagg
