#include "service/tasks/tasks.h"

#include <algorithm>
#include <random>

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

// The ends of rounds are applied in steps of this many tasks, between which calls that do not wait
// for the disk are answered: 30 ms were measured for 100,000.
constexpr uint64_t kTasksPerStep = 100'000;

// Texts of failures have half of task-bytes-max, so that workers cannot take all of it.
constexpr uint64_t kTextShare = 2;

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
      table_(
          [this](const std::string& round, const std::string& contributor) {
            return store_.Find(round, contributor).has_value();
          },
          options_.limits.task_bytes_max / kTextShare),
      pacers_(options_.limits.task_polls_per_second),
      clock_start_(options_.steady_now()) {
  // Larger than every token before: the epoch of a durable store grows with each start, and a
  // process gives fewer than 2^39 tokens. A process on a restored backup has the epoch of an
  // earlier one: the random number makes it unlikely that both give the same token. Without a
  // store, nothing is left of an earlier process but what its workers hold: the same holds for
  // their tokens.
  const uint64_t first = rows_ != nullptr
                             ? (store.Epoch().epoch << 40) + (random_() & ((uint64_t{1} << 39) - 1))
                             : (random_() & 0x3FFF'FFFF) << 32;
  table_.StartTokensAt(first + 1);
}

// --- Commits ---

absl::Status Tasks::RunOperation(Operation operation) {
  commits_.Run(operation);
  return operation.result;
}

void Tasks::CommitGroup(std::span<Operation* const> operations) {
  if (const absl::Status applied = ApplyEnds(); !applied.ok()) return Refuse(operations, applied);
  if (Attempt(operations).ok() || operations.size() == 1) return;
  // Perhaps the disk has no room for one of them only.
  for (Operation* const& operation : operations) Attempt({&operation, 1}).IgnoreError();
}

absl::Status Tasks::Attempt(std::span<Operation* const> operations) {
  Pending pending;
  {
    const std::lock_guard lock(table_mutex_);
    pending.now = NowLocked();
    table_.Advance(pending.now);
    for (Operation* operation : operations) {
      Step step{.now = pending.now};
      operation->result = operation->run(step);
      operation->holds_unstored = step.holds_unstored;
      pending.adds_work |= step.adds_work && operation->result.ok();
    }
    AddRowsLocked(pending);
  }
  const absl::Status stored = Store(pending);
  if (!stored.ok()) Refuse(operations, stored);
  return stored;
}

absl::Status Tasks::Store(const Pending& pending) {
  const absl::Status stored =
      pending.rows.empty() ? absl::OkStatus() : rows_->PutTaskRows(pending.rows, pending.adds_work);
  std::vector<Announcement> announcements;
  {
    const std::lock_guard lock(table_mutex_);
    if (stored.ok()) {
      if (!pending.rows.empty()) clock_stored_ms_ = pending.now.lease_ms;
      KeepLocked(pending, announcements);
    } else {
      table_.TakeBack();
      table_.GiveBackForgottenCreations(pending.forgotten_creations);
    }
  }
  Announce(announcements);
  return stored;
}

void Tasks::Refuse(std::span<Operation* const> operations, const absl::Status& why) {
  const std::lock_guard lock(table_mutex_);
  for (Operation* operation : operations) {
    Step step{.now = NowLocked()};
    if (operation->only_reads) {
      operation->result = operation->run(step);
    } else if (!operation->holds_unstored) {
      operation->result = why;
    }
  }
}

TaskTime Tasks::NowLocked() const {
  const auto steady = options_.steady_now();
  const auto running = std::chrono::floor<milliseconds>(steady - clock_start_);
  return {.lease_ms = clock_base_ms_ + running.count(), .steady = steady, .wall = options_.now()};
}

void Tasks::AddRowsLocked(Pending& pending) {
  pending.forgotten_creations = table_.TakeForgottenCreations();
  if (rows_ == nullptr) return;
  std::vector<TaskRow>& rows = pending.rows;
  for (const auto& [tenant, request_id] : pending.forgotten_creations) {
    rows.push_back({RequestRowKey(tenant, request_id), std::nullopt});
  }
  const auto is_kept = [&](TaskGroup* group) {
    return group->info().durability == Durability::kDurable && !pending.forgotten.contains(group);
  };
  for (TaskGroup* group : table_.added()) {
    if (!is_kept(group)) continue;
    DeleteGroupRows(group->info().name, rows);  // what damage has left of an earlier group
    rows.push_back({GroupRowKey(group->info().name), WriteTaskGroup(group->info())});
  }
  for (const TaskTable::EndedGroup& ended : table_.ended()) {
    if (!is_kept(ended.group)) continue;
    rows.push_back({EndRowKey(ended.group->info().name), WriteGroupEnd(ended.end)});
  }
  for (const auto& [id, before] : table_.changed()) {
    if (!is_kept(id.group) || id.record() == before) continue;
    rows.push_back({TaskRowKey(id.group->info().name, id.number), WriteTask(id.record())});
  }
  AddRowsOfForgottenLocked(pending);
  const bool is_clock_old =
      table_.has_leases() && pending.now.lease_ms - clock_stored_ms_ >= kClockIntervalMs;
  if (!rows.empty() || is_clock_old) {
    rows.push_back({std::string(kClockRow), absl::StrCat(pending.now.lease_ms)});
  }
}

void Tasks::AddRowsOfForgottenLocked(Pending& pending) {
  for (const TaskGroup* group : pending.forgotten) {
    const TaskGroupInfo& info = group->info();
    if (info.durability != Durability::kDurable) continue;
    DeleteGroupRows(info.name, pending.rows);
    if (info.request_id.empty() || options_.retry_horizon_ms == 0) continue;
    // Also if the table remembers it: a group in memory that was forgotten before has no row.
    pending.rows.push_back({RequestRowKey(TenantOf(info.name), info.request_id),
                            WriteForgottenRequest({info.request_digest, pending.now.wall_ms()})});
  }
}

void Tasks::KeepLocked(const Pending& pending, std::vector<Announcement>& announcements) {
  for (const TaskTable::Kept& kept : table_.Keep()) {
    const TaskGroupSnapshot& group = kept.group->committed();
    if (group.revision == kept.revision_before) continue;
    announcements.push_back({kept.group->info().name, group, group.finished()});
  }
  for (TaskGroup* group : pending.forgotten) {
    const std::string name = group->info().name;
    table_.Forget(*group, pending.now);
    announcements.push_back({name, std::nullopt});
  }
}

void Tasks::Announce(const std::vector<Announcement>& announcements) {
  for (const Announcement& announcement : announcements) {
    if (announcement.has_finished) options_.observer->OnFinished(*announcement.now);
    watchers_.Notify(announcement.group, announcement.now);
  }
}

void Tasks::Tick() {
  Run([this](Step& step) {
    const auto horizon = static_cast<int64_t>(options_.retry_horizon_ms);
    table_.ForgetRequests(step.now.wall_ms() - horizon);
    pacers_.Forget(step.now.steady);
    return absl::OkStatus();
  }).IgnoreError();
}

// --- The ends of rounds ---

void Tasks::AddEnd(const RoundEnd& end) {
  const std::lock_guard lock(ends_mutex_);
  RoundEnd& added = ends_.try_emplace({end.round, end.created}, end).first->second;
  added.deleted |= end.deleted;
  added.suspended &= end.suspended;
}

void Tasks::OnRoundState(const RoundSnapshot& round) {
  if (round.state == RoundState::kOpen) return;
  AddEnd({.round = QualifiedName(round.tenant, round.name),
          .created = round.create_time.time_since_epoch().count(),
          .deleted = round.state == RoundState::kRetired,
          .suspended = round.state == RoundState::kAborted && round.may_open_again});
}

void Tasks::CheckRound(const std::string& round, int64_t created) {
  const auto found = find_round_(round);
  const bool is_other =
      found.ok() && created != 0 && found->created != 0 && found->created != created;
  if (absl::IsNotFound(found.status()) || is_other) {
    AddEnd({.round = round, .created = created, .deleted = true});
  } else if (absl::IsUnavailable(found.status())) {
    AddEnd({.round = round, .created = created, .suspended = true});
  } else if (found.ok() && found->state != RoundState::kOpen) {
    AddEnd({.round = round, .created = created});
  }
}

std::vector<Tasks::EndedGroup> Tasks::EndedGroupsLocked(const std::vector<RoundEnd>& ends) {
  std::map<uint64_t, EndedGroup> groups;  // by the order of their creation
  for (const RoundEnd& end : ends) {
    for (TaskGroup* group : table_.GroupsOfRound(end.round, end.created)) {
      EndedGroup& ended =
          groups.try_emplace(group->info().order, EndedGroup{.group = group, .suspended = true})
              .first->second;
      ended.deleted |= end.deleted;
      ended.suspended &= end.suspended;
    }
  }
  std::vector<EndedGroup> ended;
  for (const auto& [order, group] : groups) ended.push_back(group);
  return ended;
}

absl::Status Tasks::ApplyEnds() {
  std::vector<RoundEnd> ends;
  {
    const std::lock_guard lock(ends_mutex_);
    for (auto& [key, end] : std::exchange(ends_, {})) ends.push_back(std::move(end));
  }
  if (ends.empty()) return absl::OkStatus();
  std::vector<EndedGroup> groups;
  {
    const std::lock_guard lock(table_mutex_);
    groups = EndedGroupsLocked(ends);
  }
  for (size_t next = 0; next < groups.size();) {
    Pending pending;
    {
      const std::lock_guard lock(table_mutex_);
      pending.now = NowLocked();
      for (uint64_t tasks = 0; next < groups.size() && tasks < kTasksPerStep; ++next) {
        const auto& [group, deleted, suspended] = groups[next];
        tasks += group->info().count;
        if (suspended) {
          table_.Suspend(*group, pending.now);
        } else {
          table_.CancelAll(*group, TaskEnd::kRoundClosed, pending.now);
        }
        if (deleted) pending.forgotten.insert(group);
      }
      AddRowsLocked(pending);
    }
    if (const absl::Status stored = Store(pending); !stored.ok()) {
      for (const RoundEnd& end : ends) AddEnd(end);
      return stored;
    }
  }
  return absl::OkStatus();
}

// --- For owners ---

absl::StatusOr<TaskSnapshot> Tasks::Get(const std::string& tenant, const TaskViewer& viewer,
                                        const std::string& name) {
  TaskSnapshot snapshot;
  SPARSEAGG_RETURN_IF_ERROR(Read([&](Step& step) -> absl::Status {
    SPARSEAGG_ASSIGN_OR_RETURN(const TaskId id, table_.FindTask(tenant, name));
    if (!viewer.Sees(id.record().worker)) return TaskNotFound(name);
    snapshot = table_.Snapshot(id, step.now);
    return absl::OkStatus();
  }));
  return snapshot;
}

absl::StatusOr<uint64_t> Tasks::Cancel(const std::string& tenant,
                                       const std::vector<std::string>& names) {
  SPARSEAGG_RETURN_IF_ERROR(CheckNumber("names", names.size(), kNamesPerCancelMax));
  uint64_t cancelled = 0;
  SPARSEAGG_RETURN_IF_ERROR(Run([&](Step& step) -> absl::Status {
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
      cancelled += id.number == 0 ? table_.CancelAll(*id.group, TaskEnd::kRequested, step.now)
                                  : (table_.Cancel(id, TaskEnd::kRequested, step.now) ? 1 : 0);
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
