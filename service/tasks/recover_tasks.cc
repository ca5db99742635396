// Tasks::Recover().
#include <limits>
#include <set>
#include <utility>

#include "base/status.h"
#include "service/engine/names.h"
#include "service/tasks/task_restorer.h"
#include "service/tasks/tasks.h"

namespace sparseagg {
namespace {

// A moment of the clock of leases long before all others, so that the clock is stored soon.
constexpr int64_t kNeverMs = std::numeric_limits<int32_t>::min();

}  // namespace

absl::StatusOr<TaskRecovery> Tasks::Recover(
    std::function<absl::StatusOr<RoundOfTasks>(const std::string&)> find_round) {
  find_round_ = std::move(find_round);
  TaskRecovery recovery;
  Pending pending;
  {
    const std::lock_guard lock(table_mutex_);
    SPARSEAGG_ASSIGN_OR_RETURN(pending, RestoreLocked(recovery));
  }
  // On a full disk the damaged rows stay, and are found again by the next start.
  if (!pending.rows.empty()) {
    const absl::Status mended = rows_->PutTaskRows(pending.rows, /*more_work=*/false);
    if (!mended.ok() && !absl::IsResourceExhausted(mended)) return mended;
    if (!mended.ok()) {
      const std::lock_guard lock(table_mutex_);
      table_.GiveBackForgottenCreations(pending.forgotten_creations);
    }
  }
  CheckRounds();
  Tick();
  return recovery;
}

absl::StatusOr<Tasks::Pending> Tasks::RestoreLocked(TaskRecovery& recovery) {
  // The time until now was not one in which workers could renew their leases.
  clock_start_ = options_.steady_now();
  Pending pending;
  if (rows_ == nullptr) return pending;
  TaskRestorer restorer(table_, NowLocked());
  SPARSEAGG_RETURN_IF_ERROR(rows_->ReadTaskRows("", [&](TaskRow row) {
    if (!row.key.starts_with(kTreeRowPrefix)) restorer.Read(std::move(row));
  }));
  TaskRestorer::Result found = restorer.Finish();
  clock_base_ms_ = found.clock_ms;
  clock_stored_ms_ = found.is_clock_lost ? kNeverMs : found.clock_ms;
  pending.now = NowLocked();
  pending.rows = std::move(found.deletions);
  AddRowsLocked(pending);
  table_.Keep();
  recovery.damaged_groups.assign(found.damaged_groups.begin(), found.damaged_groups.end());
  recovery.damaged_tasks = found.damaged_tasks;
  recovery.ignored_rows = found.ignored_rows;
  recovery.is_clock_lost = found.is_clock_lost;
  recovery.bounded_leases = found.bounded_leases;
  return pending;
}

void Tasks::CheckRounds() {
  std::set<std::string> rounds;
  {
    const std::lock_guard lock(table_mutex_);
    for (const auto& [name, group] : table_.groups()) rounds.insert(group->info().round);
  }
  for (const std::string& round : rounds) {
    const auto found = find_round_(round);
    if (absl::IsNotFound(found.status())) AddEnd({.round = round, .deleted = true});
    if (absl::IsUnavailable(found.status())) AddEnd({.round = round, .suspended = true});
    if (!found.ok()) continue;
    const bool is_open = found->state == RoundState::kOpen;
    const std::lock_guard lock(table_mutex_);
    for (TaskGroup* group : table_.GroupsOfRound(round, 0)) {
      // Earlier versions did not store the creation, and a damaged round has lost it. No task of
      // an earlier round may be left in an open one.
      if (!is_open || group->round_created() == 0) table_.SetRoundCreated(*group, found->created);
      if (found->created != 0 && group->round_created() != found->created) {
        AddEnd({.round = round, .created = group->round_created(), .deleted = true});
      }
    }
    if (!is_open) AddEnd({.round = round, .created = found->created});
  }
}

}  // namespace sparseagg
