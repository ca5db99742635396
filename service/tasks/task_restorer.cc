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
      ends_[name.group] = end.ok() ? std::optional(*end) : std::nullopt;
      return;
    }
    case Kind::kGroup:
      return ReadGroup(name, row);
    case Kind::kRequest: {
      const auto request = is_damaged ? absl::DataLossError("") : ReadForgottenRequest(*row.value);
      if (request.ok()) {
        requests_.push_back({name.tenant, name.request_id, *request});
      } else {
        result_.deletions.push_back({std::move(row.key), std::nullopt});
      }
      return;
    }
    case Kind::kTask:
      return ReadTaskOf(name, row);
    case Kind::kOther:
      // A later version may have written it, but not with a wrong checksum.
      if (is_damaged) result_.deletions.push_back({std::move(row.key), std::nullopt});
  }
}

void TaskRestorer::ReadGroup(const TaskRowName& name, const TaskRow& row) {
  has_groups_ = true;
  auto info = row.value.has_value() ? ReadTaskGroup(name.group, *row.value)
                                    : absl::StatusOr<TaskGroupInfo>(absl::DataLossError(""));
  if (info.ok() && TenantOf(info->round) == TenantOf(info->name)) {
    table_.Add(*std::move(info), now_);
  } else {
    result_.damaged_groups.insert(name.group);
  }
}

void TaskRestorer::ReadTaskOf(const TaskRowName& name, const TaskRow& row) {
  TaskGroup* group = table_.FindGroup(name.group);
  if (group == nullptr) {
    result_.damaged_groups.insert(name.group);
    return;
  }
  if (name.number == 0 || name.number > group->info().count) {
    result_.deletions.push_back({row.key, std::nullopt});
    return;
  }
  auto record = row.value.has_value() ? ReadTask(TenantOf(name.group), *row.value)
                                      : absl::StatusOr<TaskRecord>(absl::DataLossError(""));
  if (!record.ok()) {
    result_.damaged_tasks.push_back({group, name.number});
    return;
  }
  if (record->state == TaskState::kLeased) {
    newest_lease_ms_ =
        std::max(newest_lease_ms_, record->lease_end_ms - group->info().lease.count());
  }
  table_.Restore({group, name.number}, *std::move(record), now_);
}

void TaskRestorer::RestoreEnds() {
  for (const auto& [name, end] : ends_) {
    TaskGroup* group = table_.FindGroup(name);
    if (group == nullptr) {
      result_.damaged_groups.insert(name);
    } else if (end.has_value()) {
      table_.RestoreEnd(*group, *end);
    } else {
      result_.damaged_ends.push_back(group);
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

TaskRestorer::Result TaskRestorer::Finish() {
  RestoreEnds();
  RestoreRequests();
  RestoreClock();
  for (const std::string& group : result_.damaged_groups) {
    DeleteGroupRows(group, result_.deletions);
  }
  return std::move(result_);
}

}  // namespace sparseagg
