#include "service/tasks/task_table.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/limits.h"
#include "service/engine/names.h"
#include "service/tasks/task_names.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

}  // namespace

std::string TaskTable::TenantKey(std::string_view tenant, std::string_view word) {
  return absl::StrCat(std::string(tenant), " ", std::string(word));
}

// --- What there is ---

TaskGroup* TaskTable::FindGroup(std::string_view qualified_name) {
  const auto found = groups_.find(qualified_name);
  return found == groups_.end() ? nullptr : found->second.get();
}

absl::StatusOr<TaskId> TaskTable::FindTask(std::string_view tenant, std::string_view name) {
  SPARSEAGG_ASSIGN_OR_RETURN(const TaskName parsed, ParseTaskName(name));
  TaskGroup* group = FindGroup(QualifiedName(tenant, parsed.group));
  if (group == nullptr || parsed.number == 0 || parsed.number > group->info().count) {
    return TaskNotFound(name);
  }
  return TaskId{group, parsed.number};
}

std::vector<TaskGroup*> TaskTable::GroupsOfRound(const std::string& qualified_round,
                                                 int64_t created) {
  std::vector<TaskGroup*> groups;
  const auto found = groups_of_round_.find(qualified_round);
  if (found == groups_of_round_.end()) return groups;
  for (const auto& [order, group] : found->second) {
    const bool is_other =
        created != 0 && group->round_created_ != 0 && group->round_created_ != created;
    if (!is_other) groups.push_back(group);
  }
  return groups;
}

std::vector<TaskGroup*> TaskTable::GroupsOfRequest(std::string_view tenant,
                                                   const std::string& request_id) {
  std::vector<TaskGroup*> groups;
  const auto found = groups_of_request_.find(TenantKey(tenant, request_id));
  if (request_id.empty() || found == groups_of_request_.end()) return groups;
  for (const auto& [order, group] : found->second) groups.push_back(group);
  return groups;
}

uint64_t TaskTable::TasksOf(std::string_view tenant) const {
  const auto found = tasks_of_tenant_.find(tenant);
  return found == tasks_of_tenant_.end() ? 0 : found->second;
}

TaskSnapshot TaskTable::Snapshot(const TaskId& id, const TaskTime& now) const {
  const TaskGroupInfo& info = id.group->info();
  const TaskRecord& task = id.record();
  TaskSnapshot snapshot{.name = TaskNameOf(PublicName(info.name), id.number),
                        .pool = info.pool,
                        .round = std::string(PublicName(info.round)),
                        .contributor = id.contributor(),
                        .payload = info.payload,
                        .state = task.state,
                        .worker = task.worker,
                        .attempts = task.attempts,
                        .attempts_max = info.attempts_max,
                        .leases = task.leases,
                        .create_time = info.create_time,
                        .deadline = info.deadline,
                        .end = task.end,
                        .last_failure = task.last_failure};
  if (task.state == TaskState::kLeased) {
    snapshot.lease =
        TaskLease{.token = task.token,
                  .time_left = milliseconds(std::max<int64_t>(task.lease_end_ms - now.lease_ms, 0)),
                  .duration = info.lease};
  }
  if (IsFinal(task.state)) {
    snapshot.end_time = system_clock::time_point(milliseconds(task.end_time_ms));
  }
  return snapshot;
}

bool TaskTable::HoldsTask(std::string_view tenant, std::string_view principal,
                          std::string_view round, std::string_view contributor,
                          const TaskTime& now) const {
  const std::string qualified = QualifiedName(tenant, round);
  std::string buffer;
  const auto holds = [&](const std::set<TaskId>& leases) {
    return std::ranges::any_of(leases, [&](const TaskId& id) {
      return id.group->info().round == qualified &&
             id.group->ContributorOf(id.number, buffer) == contributor &&
             id.record().lease_end_ms > now.lease_ms;
    });
  };
  const std::string name = TenantKey(tenant, principal);
  const auto self = leased_.find(name);
  if (self != leased_.end() && holds(self->second)) return true;
  const std::string below = absl::StrCat(name, "/");
  for (auto worker = leased_.lower_bound(below);
       worker != leased_.end() && worker->first.starts_with(below); ++worker) {
    if (holds(worker->second)) return true;
  }
  return false;
}

TaskStats TaskTable::Stats() const {
  TaskStats stats = stats_;
  stats.groups = groups_.size();
  stats.payload_bytes = bytes_;
  for (const auto& [name, group] : groups_) {
    stats.available += group->available_count_;
    stats.leased += group->leased_count_;
  }
  stats.finished = tasks_ - stats.available - stats.leased;
  return stats;
}

// --- Indexes ---

uint64_t& TaskTable::CountOf(TaskGroup& group, TaskState state) {
  switch (state) {
    case TaskState::kAvailable:
      return group.available_count_;
    case TaskState::kLeased:
      return group.leased_count_;
    case TaskState::kCompleted:
      return group.completed_count_;
    case TaskState::kFailed:
      return group.failed_count_;
    case TaskState::kCancelled:
      break;
  }
  return group.cancelled_count_;
}

void TaskTable::EnterAvailable(TaskGroup& group) {
  if (group.is_suspended_) return;
  const TaskGroupInfo& info = group.info();
  available_[TenantKey(TenantOf(info.name), info.pool)][info.required_capabilities][info.order] =
      &group;
}

void TaskTable::LeaveAvailable(TaskGroup& group) {
  if (group.is_suspended_) return;
  const TaskGroupInfo& info = group.info();
  const auto pool = available_.find(TenantKey(TenantOf(info.name), info.pool));
  const auto groups = pool->second.find(info.required_capabilities);
  groups->second.erase(info.order);
  if (groups->second.empty()) pool->second.erase(groups);
  if (pool->second.empty()) available_.erase(pool);
}

void TaskTable::EnterLease(const TaskId& id, const TaskRecord& record) {
  lease_ends_.emplace(record.lease_end_ms, id);
  leased_[TenantKey(TenantOf(id.group->info().name), record.worker)].insert(id);
}

void TaskTable::LeaveLease(const TaskId& id, const TaskRecord& record) {
  lease_ends_.erase({record.lease_end_ms, id});
  const auto worker = leased_.find(TenantKey(TenantOf(id.group->info().name), record.worker));
  worker->second.erase(id);
  if (worker->second.empty()) leased_.erase(worker);
}

void TaskTable::Leave(const TaskId& id, const TaskRecord& record) {
  TaskGroup& group = *id.group;
  --CountOf(group, record.state);
  group.leases_ -= record.leases;
  group.record_bytes_ -= record.bytes();
  bytes_ -= record.bytes();
  if (record.state == TaskState::kAvailable && group.available_count_ == 0) LeaveAvailable(group);
  if (record.state == TaskState::kLeased) LeaveLease(id, record);
}

void TaskTable::Enter(const TaskId& id, const TaskRecord& record) {
  TaskGroup& group = *id.group;
  group.leases_ += record.leases;
  group.record_bytes_ += record.bytes();
  bytes_ += record.bytes();
  if (++CountOf(group, record.state) == 1 && record.state == TaskState::kAvailable) {
    EnterAvailable(group);
  }
  if (record.state == TaskState::kLeased) EnterLease(id, record);
}

void TaskTable::Set(const TaskId& id, TaskRecord record) {
  TaskRecord& task = RecordOf(id);
  Leave(id, task);
  task = std::move(record);
  Enter(id, task);
  if (task.state != TaskState::kAvailable) return;
  // A task that was leased before comes after those that were not.
  TaskGroup& group = *id.group;
  const bool is_untouched = task.leases == 0 && id.number >= group.next_untouched_;
  if (is_untouched || group.is_queued_[id.number - 1]) return;
  group.queue_.push_back(id.number);
  group.is_queued_[id.number - 1] = true;
}

void TaskTable::Change(const TaskId& id, TaskRecord record) {
  changed_.try_emplace(id, RecordOf(id));
  Set(id, std::move(record));
}

TaskGroup& TaskTable::Add(TaskGroupInfo info, const TaskTime& now) {
  next_order_ = std::max(next_order_, info.order + 1);
  const std::string name = info.name;
  auto made = std::make_unique<TaskGroup>(std::move(info));
  TaskGroup& group = *made;
  const std::string tenant(TenantOf(name));
  const TaskGroupInfo& added = group.info();
  tasks_ += added.count;
  tasks_of_tenant_[tenant] += added.count;
  bytes_ += added.bytes();
  groups_of_round_[added.round][added.order] = &group;
  if (!added.request_id.empty()) {
    groups_of_request_[TenantKey(tenant, added.request_id)][added.order] = &group;
  }
  EnterAvailable(group);
  if (added.deadline.has_value()) {
    group.deadline_ = now.steady + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                       *added.deadline - now.wall);
    deadlines_.emplace(*group.deadline_, &group);
  }
  groups_.emplace(name, std::move(made));
  added_.push_back(&group);
  return group;
}

// REQUIRES: none of its tasks is LEASED.
void TaskTable::Erase(TaskGroup& group) {
  const TaskGroupInfo& info = group.info();
  if (group.available_count_ > 0) LeaveAvailable(group);
  std::erase(added_, &group);
  tasks_ -= info.count;
  const auto of_tenant = tasks_of_tenant_.find(TenantOf(info.name));
  of_tenant->second -= info.count;
  if (of_tenant->second == 0) tasks_of_tenant_.erase(of_tenant);
  bytes_ -= info.bytes() + group.record_bytes_;
  const auto of_round = groups_of_round_.find(info.round);
  of_round->second.erase(info.order);
  if (of_round->second.empty()) groups_of_round_.erase(of_round);
  if (!info.request_id.empty()) {
    const auto of_request =
        groups_of_request_.find(TenantKey(TenantOf(info.name), info.request_id));
    of_request->second.erase(info.order);
    if (of_request->second.empty()) groups_of_request_.erase(of_request);
  }
  if (group.deadline_.has_value()) deadlines_.erase({*group.deadline_, &group});
  groups_.erase(groups_.find(info.name));
}

// --- Requests ---

void TaskTable::Forget(TaskGroup& group, const TaskTime& now) {
  const TaskGroupInfo& info = group.info();
  if (!info.request_id.empty()) {
    RestoreForgottenRequest(TenantOf(info.name), info.request_id, info.request_digest,
                            now.wall_ms());
  }
  Erase(group);
}

void TaskTable::RestoreForgottenRequest(std::string_view tenant, const std::string& request_id,
                                        std::string digest, int64_t forgotten_ms) {
  creations_.Add(tenant, request_id, std::move(digest), forgotten_ms,
                 [&](const std::string& id) { forgotten_creations_.emplace_back(tenant, id); });
}

void TaskTable::ForgetRequests(int64_t time_ms) {
  acquisitions_.ForgetBefore(time_ms);
  creations_.ForgetBefore(time_ms, [this](const std::string& tenant, const std::string& id) {
    forgotten_creations_.emplace_back(tenant, id);
  });
}

// --- What was stored ---

void TaskTable::Restore(const TaskId& id, TaskRecord record, const TaskTime& now) {
  if (!record.request.empty()) {
    acquisitions_.Add(TenantOf(id.group->info().name), record.request, {}, now.wall_ms());
  }
  Set(id, std::move(record));
}

uint64_t TaskTable::BoundLeases(int64_t lease_now_ms) {
  std::vector<TaskId> longer;
  for (const auto& [end_ms, id] : lease_ends_) {
    if (end_ms - lease_now_ms > id.group->info().lease.count()) longer.push_back(id);
  }
  for (const TaskId& id : longer) {
    TaskRecord record = RecordOf(id);
    record.lease_end_ms = lease_now_ms + id.group->info().lease.count();
    Set(id, std::move(record));
  }
  return longer.size();
}

// --- The journal ---

void TaskTable::Commit(TaskGroup& group) {
  group.committed_ = group.Snapshot();
  if (group.unfinished() == 0) group.queue_ = {};
}

std::vector<TaskTable::Kept> TaskTable::Keep() {
  kept_stats_ = stats_;
  std::set<TaskGroup*> groups(added_.begin(), added_.end());
  for (const auto& [id, before] : changed_) groups.insert(id.group);
  for (const EndedGroup& ended : ended_) groups.insert(ended.group);
  changed_.clear();
  ended_.clear();
  added_.clear();
  acquired_.clear();
  std::vector<Kept> kept;
  for (TaskGroup* group : groups) {
    kept.push_back({group, group->committed_.has_value() ? group->committed_->revision : 0});
    Commit(*group);
  }
  return kept;
}

void TaskTable::TakeBack() {
  stats_ = kept_stats_;
  const auto take_back_deadline = [this](TaskGroup& group) {
    if (group.deadline_.has_value()) deadlines_.emplace(*group.deadline_, &group);
  };
  for (auto ended = ended_.rbegin(); ended != ended_.rend(); ++ended) {
    TakeBackEnd(*ended);
    take_back_deadline(*ended->group);
  }
  ended_.clear();
  for (auto& [id, record] : changed_) {
    Set(id, std::move(record));
    take_back_deadline(*id.group);
  }
  changed_.clear();
  for (auto taken = acquired_.rbegin(); taken != acquired_.rend(); ++taken) {
    acquisitions_.TakeBack(taken->first, taken->second);
  }
  acquired_.clear();
  const std::vector<TaskGroup*> added = std::exchange(added_, {});
  for (TaskGroup* group : added) Erase(*group);
}

}  // namespace sparseagg
