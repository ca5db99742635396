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

std::vector<TaskGroup*> TaskTable::GroupsOfRound(const std::string& qualified_round) {
  std::vector<TaskGroup*> groups;
  const auto found = groups_of_round_.find(qualified_round);
  if (found == groups_of_round_.end()) return groups;
  for (const auto& [order, group] : found->second) groups.push_back(group);
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
  const std::string first = TenantKey(tenant, principal);
  const TaskViewer viewer{.worker = first};
  for (auto worker = leased_.lower_bound(first);
       worker != leased_.end() && worker->first.starts_with(first); ++worker) {
    if (!viewer.Sees(worker->first)) continue;
    for (const TaskId& id : worker->second) {
      if (id.group->info().round == qualified && id.contributor() == contributor &&
          id.record().lease_end_ms > now.lease_ms) {
        return true;
      }
    }
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

void TaskTable::Leave(const TaskId& id, const TaskRecord& record) {
  TaskGroup& group = *id.group;
  const std::string_view tenant = TenantOf(group.info().name);
  --CountOf(group, record.state);
  group.leases_ -= record.leases;
  if (record.state == TaskState::kAvailable && group.available_count_ == 0) {
    const auto pool = available_.find(TenantKey(tenant, group.info().pool));
    pool->second.erase(group.info().order);
    if (pool->second.empty()) available_.erase(pool);
  }
  if (record.state == TaskState::kLeased) {
    lease_ends_.erase({record.lease_end_ms, id});
    const auto worker = leased_.find(TenantKey(tenant, record.worker));
    worker->second.erase(id);
    if (worker->second.empty()) leased_.erase(worker);
  }
}

void TaskTable::Enter(const TaskId& id, const TaskRecord& record) {
  TaskGroup& group = *id.group;
  const std::string_view tenant = TenantOf(group.info().name);
  ++CountOf(group, record.state);
  group.leases_ += record.leases;
  if (record.state == TaskState::kAvailable) {
    available_[TenantKey(tenant, group.info().pool)][group.info().order] = id.group;
  }
  if (record.state == TaskState::kLeased) {
    lease_ends_.emplace(record.lease_end_ms, id);
    leased_[TenantKey(tenant, record.worker)].insert(id);
  }
}

void TaskTable::Set(const TaskId& id, TaskRecord record) {
  TaskRecord& task = RecordOf(id);
  Leave(id, task);
  const bool was_available = task.state == TaskState::kAvailable;
  task = std::move(record);
  Enter(id, task);
  // A task that was AVAILABLE before is in the queue already.
  if (task.state == TaskState::kAvailable && !was_available) id.group->queue_.push_back(id.number);
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
  for (uint32_t number = 1; number <= added.count; ++number) group.queue_.push_back(number);
  tasks_ += added.count;
  tasks_of_tenant_[tenant] += added.count;
  bytes_ += added.bytes();
  groups_of_round_[added.round][added.order] = &group;
  if (!added.request_id.empty()) {
    groups_of_request_[TenantKey(tenant, added.request_id)][added.order] = &group;
  }
  available_[TenantKey(tenant, added.pool)][added.order] = &group;
  if (added.deadline.has_value()) {
    group.deadline_ = now.steady + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                       *added.deadline - now.wall);
    deadlines_.emplace(*group.deadline_, &group);
  }
  groups_.emplace(name, std::move(made));
  added_.push_back(&group);
  return group;
}

void TaskTable::Erase(TaskGroup& group) {
  const TaskGroupInfo info = group.info();
  const std::string tenant(TenantOf(info.name));
  for (uint32_t number = 1; number <= info.count; ++number) {
    const TaskId id{&group, number};
    Leave(id, group.task(number));
    changed_.erase(id);
  }
  std::erase(added_, &group);
  tasks_ -= info.count;
  const auto of_tenant = tasks_of_tenant_.find(tenant);
  of_tenant->second -= info.count;
  if (of_tenant->second == 0) tasks_of_tenant_.erase(of_tenant);
  bytes_ -= info.bytes();
  const auto of_round = groups_of_round_.find(info.round);
  of_round->second.erase(info.order);
  if (of_round->second.empty()) groups_of_round_.erase(of_round);
  // The request is forgotten with the first of its groups.
  if (!info.request_id.empty()) groups_of_request_.erase(TenantKey(tenant, info.request_id));
  if (group.deadline_.has_value()) deadlines_.erase({*group.deadline_, &group});
  groups_.erase(groups_.find(info.name));
}

// --- The journal ---

std::vector<TaskTable::Kept> TaskTable::Keep() {
  kept_stats_ = stats_;
  std::set<TaskGroup*> groups(added_.begin(), added_.end());
  for (const auto& [id, before] : changed_) groups.insert(id.group);
  changed_.clear();
  added_.clear();
  std::vector<Kept> kept;
  for (TaskGroup* group : groups) {
    kept.push_back({group, group->committed_.has_value() ? group->committed_->revision : 0});
    group->committed_ = group->Snapshot();
  }
  return kept;
}

void TaskTable::TakeBack() {
  stats_ = kept_stats_;
  for (auto& [id, record] : changed_) {
    Set(id, std::move(record));
    TaskGroup& group = *id.group;
    if (group.deadline_.has_value()) deadlines_.emplace(*group.deadline_, &group);
  }
  changed_.clear();
  const std::vector<TaskGroup*> added = std::exchange(added_, {});
  for (TaskGroup* group : added) Erase(*group);
}

}  // namespace sparseagg
