#include "service/tasks/tasks.h"

#include <algorithm>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/limits.h"
#include "service/engine/names.h"
#include "service/tasks/stored_tasks.h"
#include "service/tasks/task_names.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;

// The clock of leases is stored this often while there are leases and nothing else is stored, so
// that a crash lengthens a lease by no more.
constexpr int64_t kClockIntervalMs = 5000;

uint64_t SystemRandom() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace

Tasks::Tasks(TaskOptions options, const UpdateStore& store, TaskRowStore* rows)
    : options_(std::move(options)),
      store_(store),
      rows_(rows),
      random_(options_.random ? options_.random : SystemRandom),
      table_([this](const std::string& round, const std::string& contributor) {
        return store_.Find(round, contributor).has_value();
      }),
      clock_start_(options_.steady_now()) {
  // Larger than every token before: the epoch of a durable store grows with each start. Without
  // one, nothing is left of an earlier process but what its workers hold: a random number makes
  // their tokens no others'.
  const uint64_t era = rows_ != nullptr ? store.Epoch().epoch : random_() & 0x3FFF'FFFF;
  table_.StartTokensAt((era << 32) + 1);
}

// --- Commits ---

absl::Status Tasks::Run(std::function<absl::Status(const TaskTime&)> run, bool more_work) {
  Operation operation{.run = std::move(run), .more_work = more_work};
  commits_.Run(operation);
  return operation.result;
}

void Tasks::CommitGroup(std::span<Operation* const> operations) {
  if (Attempt(operations).ok() || operations.size() == 1) return;
  // Perhaps the disk has no room for one of them only.
  for (Operation* const& operation : operations) Attempt({&operation, 1}).IgnoreError();
}

absl::Status Tasks::Attempt(std::span<Operation* const> operations) {
  std::vector<RoundEnd> ends;
  {
    const std::lock_guard lock(ends_mutex_);
    ends.swap(ends_);
  }
  std::vector<TaskGroup*> forgotten;
  std::vector<TaskRow> rows;
  bool more_work = false;
  TaskTime now;
  {
    const std::lock_guard lock(table_mutex_);
    now = NowLocked();
    EndRoundsLocked(ends, now, forgotten);
    table_.Advance(now);
    for (Operation* operation : operations) {
      operation->result = operation->run(now);
      more_work |= operation->more_work && operation->result.ok();
    }
    if (rows_ != nullptr) rows = RowsLocked(forgotten, now);
  }
  const absl::Status stored = rows.empty() ? absl::OkStatus() : rows_->PutTaskRows(rows, more_work);
  std::vector<Announcement> announcements;
  {
    const std::lock_guard lock(table_mutex_);
    if (stored.ok()) {
      if (!rows.empty()) clock_stored_ms_ = now.lease_ms;
      KeepLocked(forgotten, announcements);
    } else {
      table_.TakeBack();
    }
  }
  if (!stored.ok()) {
    for (Operation* operation : operations) operation->result = stored;
    const std::lock_guard lock(ends_mutex_);
    ends_.insert(ends_.begin(), ends.begin(), ends.end());
  }
  Announce(announcements);
  return stored;
}

TaskTime Tasks::NowLocked() const {
  const auto steady = options_.steady_now();
  const auto running = std::chrono::floor<milliseconds>(steady - clock_start_);
  return {.lease_ms = clock_base_ms_ + running.count(), .steady = steady, .wall = options_.now()};
}

void Tasks::EndRoundsLocked(const std::vector<RoundEnd>& ends, const TaskTime& now,
                            std::vector<TaskGroup*>& forgotten) {
  for (const RoundEnd& end : ends) {
    for (TaskGroup* group : table_.GroupsOfRound(end.round)) {
      table_.CancelAll(*group, TaskEnd::kRoundClosed, now);
      const bool is_new = std::ranges::find(forgotten, group) == forgotten.end();
      if (end.deleted && is_new) forgotten.push_back(group);
    }
  }
}

std::vector<TaskRow> Tasks::RowsLocked(const std::vector<TaskGroup*>& forgotten,
                                       const TaskTime& now) {
  std::vector<TaskRow> rows;
  const auto is_kept = [&](const TaskGroup* group) {
    return group->info().durability == Durability::kDurable &&
           std::ranges::find(forgotten, group) == forgotten.end();
  };
  for (const TaskGroup* group : table_.added()) {
    if (is_kept(group))
      rows.push_back({GroupRowKey(group->info().name), WriteTaskGroup(group->info())});
  }
  for (const auto& [id, before] : table_.changed()) {
    if (!is_kept(id.group) || id.record() == before) continue;
    rows.push_back({TaskRowKey(id.group->info().name, id.number), WriteTask(id.record())});
  }
  for (TaskGroup* group : forgotten) {
    if (group->info().durability != Durability::kDurable) continue;
    rows.push_back({GroupRowKey(group->info().name), std::nullopt});
    for (uint32_t number = 1; number <= group->info().count; ++number) {
      rows.push_back({TaskRowKey(group->info().name, number), std::nullopt});
    }
  }
  const bool is_clock_old =
      table_.has_leases() && now.lease_ms - clock_stored_ms_ >= kClockIntervalMs;
  if (!rows.empty() || is_clock_old) {
    rows.push_back({std::string(kClockRow), absl::StrCat(now.lease_ms)});
  }
  return rows;
}

void Tasks::KeepLocked(const std::vector<TaskGroup*>& forgotten,
                       std::vector<Announcement>& announcements) {
  for (const TaskTable::Kept& kept : table_.Keep()) {
    const TaskGroupSnapshot& group = kept.group->committed();
    if (group.revision == kept.revision_before) continue;
    announcements.push_back({kept.group->info().name, group, group.finished()});
  }
  for (TaskGroup* group : forgotten) {
    const std::string name = group->info().name;
    table_.Erase(*group);
    announcements.push_back({name, std::nullopt});
  }
}

void Tasks::Announce(const std::vector<Announcement>& announcements) {
  for (const Announcement& announcement : announcements) {
    if (announcement.has_finished) options_.observer->OnFinished(*announcement.now);
    watchers_.Notify(announcement.group, announcement.now);
  }
}

void Tasks::AddEnd(RoundEnd end) {
  const std::lock_guard lock(ends_mutex_);
  ends_.push_back(std::move(end));
}

void Tasks::OnRoundState(const RoundSnapshot& round) {
  if (round.state == RoundState::kOpen) return;
  AddEnd({QualifiedName(round.tenant, round.name), round.state == RoundState::kRetired});
}

void Tasks::Tick() {
  Run([](const TaskTime&) { return absl::OkStatus(); }).IgnoreError();
}

// --- Recovery ---

absl::StatusOr<std::vector<std::string>> Tasks::Recover(
    std::function<absl::StatusOr<RoundOfTasks>(const std::string&)> find_round) {
  find_round_ = std::move(find_round);
  std::vector<TaskRow> rows;
  if (rows_ != nullptr) {
    SPARSEAGG_ASSIGN_OR_RETURN(rows, rows_->TaskRows());
    std::erase_if(rows, [](const TaskRow& row) { return row.key.starts_with(kTreeRowPrefix); });
  }
  std::vector<std::string> damaged;
  std::vector<std::string> rounds;
  {
    const std::lock_guard lock(table_mutex_);
    SPARSEAGG_RETURN_IF_ERROR(RestoreRows(rows, damaged));
    for (const auto& [name, group] : table_.groups()) rounds.push_back(group->info().round);
  }
  for (const std::string& round : rounds) {
    const auto found = find_round_(round);
    if (!found.ok()) {
      AddEnd({.round = round, .deleted = true});
    } else if (found->state != RoundState::kOpen) {
      AddEnd({.round = round});
    }
  }
  std::vector<TaskRow> leftovers;
  for (const std::string& group : damaged) {
    for (const TaskRow& row : rows) {
      if (ParseTaskRowKey(row.key).group == group) leftovers.push_back({row.key, std::nullopt});
    }
  }
  if (!leftovers.empty()) SPARSEAGG_RETURN_IF_ERROR(rows_->PutTaskRows(leftovers, false));
  Tick();
  return damaged;
}

absl::Status Tasks::RestoreRows(const std::vector<TaskRow>& rows,
                                std::vector<std::string>& damaged) {
  using Kind = TaskRowName::Kind;
  // In the order of their keys: the clock, groups, tasks.
  TaskTime now = NowLocked();
  for (const TaskRow& row : rows) {
    const TaskRowName name = ParseTaskRowKey(row.key);
    if (name.kind == Kind::kClock) {
      // A damaged clock starts again; leases end early then, which costs time only.
      if (row.value.has_value() && absl::SimpleAtoi(*row.value, &clock_base_ms_)) {
        clock_stored_ms_ = clock_base_ms_;
        now = NowLocked();
      }
    } else if (name.kind == Kind::kGroup) {
      auto info = row.value.has_value() ? ReadTaskGroup(name.group, *row.value)
                                        : absl::StatusOr<TaskGroupInfo>(absl::DataLossError(""));
      if (!info.ok()) {
        damaged.push_back(name.group);
        continue;
      }
      table_.Add(*std::move(info), now);
    } else if (name.kind == Kind::kTask) {
      TaskGroup* group = table_.FindGroup(name.group);
      if (group == nullptr || name.number == 0 || name.number > group->info().count) continue;
      const TaskId id{group, name.number};
      const auto record = row.value.has_value()
                              ? ReadTask(*row.value)
                              : absl::StatusOr<TaskRecord>(absl::DataLossError(""));
      if (record.ok()) {
        table_.Restore(id, *record);
      } else {
        table_.Cancel(id, TaskEnd::kStoreCorrupt, now);
      }
    }
  }
  table_.Keep();
  return absl::OkStatus();
}

// --- For owners ---

absl::StatusOr<TaskSnapshot> Tasks::Get(const std::string& tenant, const TaskViewer& viewer,
                                        const std::string& name) {
  TaskSnapshot snapshot;
  SPARSEAGG_RETURN_IF_ERROR(Run([&](const TaskTime& now) -> absl::Status {
    SPARSEAGG_ASSIGN_OR_RETURN(const TaskId id, table_.FindTask(tenant, name));
    if (!viewer.Sees(id.record().worker)) return TaskNotFound(name);
    snapshot = table_.Snapshot(id, now);
    return absl::OkStatus();
  }));
  return snapshot;
}

absl::StatusOr<uint64_t> Tasks::Cancel(const std::string& tenant,
                                       const std::vector<std::string>& names) {
  SPARSEAGG_RETURN_IF_ERROR(CheckNumber("names", names.size(), kNamesPerCancelMax));
  uint64_t cancelled = 0;
  SPARSEAGG_RETURN_IF_ERROR(Run([&](const TaskTime& now) -> absl::Status {
    std::vector<TaskId> tasks;  // number 0: a group
    for (const std::string& name : names) {
      SPARSEAGG_ASSIGN_OR_RETURN(const TaskName parsed, ParseTaskName(name));
      if (parsed.number == 0) {
        TaskGroup* group = table_.FindGroup(QualifiedName(tenant, name));
        if (group == nullptr) return TaskGroupNotFound(name);
        tasks.push_back({group, 0});
      } else {
        SPARSEAGG_ASSIGN_OR_RETURN(const TaskId id, table_.FindTask(tenant, name));
        tasks.push_back(id);
      }
    }
    cancelled = 0;
    for (const TaskId& id : tasks) {
      cancelled += id.number == 0 ? table_.CancelAll(*id.group, TaskEnd::kRequested, now)
                                  : (table_.Cancel(id, TaskEnd::kRequested, now) ? 1 : 0);
    }
    return absl::OkStatus();
  }));
  options_.observer->OnCancelled(tenant, names, cancelled);
  return cancelled;
}

absl::StatusOr<TaskGroupSnapshot> Tasks::GetGroup(const std::string& tenant,
                                                  std::string_view name) {
  SPARSEAGG_RETURN_IF_ERROR(ParseTaskName(name).status());
  const std::lock_guard lock(table_mutex_);
  const TaskGroup* group = table_.FindGroup(QualifiedName(tenant, name));
  if (group == nullptr || !group->is_committed()) return TaskGroupNotFound(name);
  return group->committed();
}

absl::StatusOr<std::shared_ptr<void>> Tasks::Watch(const std::string& tenant, std::string_view name,
                                                   OnTaskGroup on_change) {
  SPARSEAGG_RETURN_IF_ERROR(GetGroup(tenant, name).status());
  return watchers_.Add(QualifiedName(tenant, name), std::move(on_change));
}

// --- For the server ---

bool Tasks::MaySubmit(const std::string& tenant, std::string_view principal, std::string_view round,
                      std::string_view contributor) {
  const std::lock_guard lock(table_mutex_);
  return table_.HoldsTask(tenant, principal, round, contributor, NowLocked());
}

TaskStats Tasks::Stats() {
  const std::lock_guard lock(table_mutex_);
  return table_.Stats();
}

}  // namespace sparseagg
