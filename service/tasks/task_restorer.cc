#include "service/tasks/task_restorer.h"

#include <algorithm>
#include <utility>

#include "service/engine/names.h"

namespace sparseagg {

void TaskRestorer::Read(TaskRow row) {
  using Kind = TaskRowName::Kind;
  const TaskRowName name = ParseTaskRowKey(row.key);
  const bool is_damaged = !row.value.has_value();
  switch (name.kind) {
    case Kind::kClock: {
      const auto clock = is_damaged ? absl::DataLossError("") : ReadClock(*row.value);
      if (clock.ok()) clock_ms_ = *clock;
      return;
    }
    case Kind::kEnd: {
      const auto end = is_damaged ? absl::DataLossError("") : ReadGroupEnd(*row.value);
      if (end.ok()) {
        ends_[name.group] = *end;
      } else {
        damaged_ends_.insert(name.group);
      }
      return;
    }
    case Kind::kGroup:
      return ReadGroup(name, row);
    case Kind::kRequest: {
      const auto request = is_damaged ? absl::DataLossError("") : ReadForgottenRequest(*row.value);
      if (request.ok()) {
        requests_.push_back({name.tenant, name.request_id, *request});
      } else {
        damaged_keys_.insert(std::move(row.key));
      }
      return;
    }
    case Kind::kTask:
      return ReadTaskOf(name, row);
    case Kind::kOther:
      // A later version may have written it, but not with a wrong checksum.
      (is_damaged ? damaged_keys_ : other_keys_).insert(std::move(row.key));
  }
}

void TaskRestorer::ReadGroup(const TaskRowName& name, const TaskRow& row) {
  has_groups_ = true;
  auto info = row.value.has_value() ? ReadTaskGroup(name.group, *row.value)
                                    : absl::StatusOr<TaskGroupInfo>(absl::DataLossError(""));
  if (info.ok() && table_.FindGroup(name.group) != nullptr) return;
  const bool is_healthy = info.ok() && TenantOf(info->round) == TenantOf(info->name) &&
                          orders_.insert(info->order).second;
  if (is_healthy) {
    table_.Add(*std::move(info), now_);
  } else {
    groups_without_row_.insert(name.group);
  }
}

void TaskRestorer::ReadTaskOf(const TaskRowName& name, const TaskRow& row) {
  TaskGroup* group = table_.FindGroup(name.group);
  if (group == nullptr) {
    groups_without_row_.insert(name.group);
    return;
  }
  if (name.number == 0 || name.number > group->info().count) {
    result_.deletions.push_back({row.key, std::nullopt});
    return;
  }
  auto record = row.value.has_value() ? ReadTask(TenantOf(name.group), *row.value)
                                      : absl::StatusOr<TaskRecord>(absl::DataLossError(""));
  if (!record.ok()) {
    damaged_tasks_.push_back({group, name.number});
    return;
  }
  if (record->state == TaskState::kLeased) {
    newest_lease_ms_ =
        std::max(newest_lease_ms_, record->lease_end_ms - group->info().lease.count());
  }
  table_.Restore({group, name.number}, *std::move(record), now_);
}

void TaskRestorer::EndDamagedTasks() {
  for (const TaskId& id : damaged_tasks_) {
    // No task that has a row is as it was created.
    const bool has_healthy_row = id.record() != TaskRecord();
    result_.ignored_rows += has_healthy_row ? 1 : 0;
    if (has_healthy_row) continue;
    result_.damaged_tasks += table_.Cancel(id, TaskEnd::kStoreCorrupt, now_) ? 1 : 0;
  }
}

void TaskRestorer::RestoreEnds() {
  for (const auto& [name, end] : ends_) {
    TaskGroup* group = table_.FindGroup(name);
    if (group != nullptr) {
      table_.RestoreEnd(*group, end);
    } else {
      groups_without_row_.insert(name);
    }
  }
  for (const std::string& name : damaged_ends_) {
    TaskGroup* group = table_.FindGroup(name);
    if (ends_.contains(name)) {
      ++result_.ignored_rows;
    } else if (group != nullptr) {
      result_.damaged_tasks += table_.CancelAll(*group, TaskEnd::kStoreCorrupt, now_);
    } else {
      groups_without_row_.insert(name);
    }
  }
}

void TaskRestorer::RestoreRequests() {
  std::ranges::stable_sort(requests_, {},
                           [](const Request& request) { return request.forgotten.forgotten_ms; });
  for (const Request& request : requests_) {
    table_.RestoreForgottenRequest(request.tenant, request.id, request.forgotten.digest,
                                   request.forgotten.forgotten_ms);
  }
}

// Every change of a lease stores the clock, too. If that row is lost, the clock goes on where the
// newest lease began: no later moment is known to have passed.
void TaskRestorer::RestoreClock() {
  result_.is_clock_lost = !clock_ms_.has_value() && has_groups_;
  result_.clock_ms = clock_ms_.value_or(newest_lease_ms_);
  result_.bounded_leases = table_.BoundLeases(result_.clock_ms);
}

void TaskRestorer::DeleteRows() {
  for (const std::string& group : groups_without_row_) {
    if (table_.FindGroup(group) != nullptr) {
      ++result_.ignored_rows;
      continue;
    }
    DeleteGroupRows(group, result_.deletions);
    result_.damaged_groups.insert(group);
  }
  if (damaged_keys_.empty()) return;
  for (const Request& request : requests_) {
    other_keys_.insert(RequestRowKey(request.tenant, request.id));
  }
  for (const std::string& key : damaged_keys_) {
    if (other_keys_.contains(key)) {
      ++result_.ignored_rows;
    } else {
      result_.deletions.push_back({key, std::nullopt});
    }
  }
}

TaskRestorer::Result TaskRestorer::Finish() {
  table_.Keep();
  EndDamagedTasks();
  RestoreEnds();
  RestoreRequests();
  RestoreClock();
  DeleteRows();
  return std::move(result_);
}

}  // namespace sparseagg
