// The transitions of tasks (the diagram of task_types.h).
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/limits.h"
#include "service/engine/names.h"
#include "service/tasks/task_names.h"
#include "service/tasks/task_table.h"

namespace sparseagg {
namespace {

int64_t ToMs(std::chrono::system_clock::time_point time) {
  return std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

bool HasAll(const std::vector<std::string>& capabilities,
            const std::vector<std::string>& required) {
  return std::ranges::all_of(required, [&](const std::string& capability) {
    return std::ranges::find(capabilities, capability) != capabilities.end();
  });
}

}  // namespace

void TaskTable::Finish(const TaskId& id, TaskState state, TaskEnd why, const TaskTime& now) {
  TaskRecord task = RecordOf(id);
  task.state = state;
  task.end = why;
  task.end_time_ms = ToMs(now.wall);
  task.request_id.clear();
  switch (state) {
    case TaskState::kCompleted:
      ++stats_.completed;
      break;
    case TaskState::kFailed:
      ++stats_.failed;
      break;
    default:
      ++stats_.cancelled;
  }
  Change(id, std::move(task));
}

bool TaskTable::IsCounted(const TaskId& id) const {
  return counted_(id.group->info().round, id.contributor());
}

bool TaskTable::CompleteIfCounted(const TaskId& id, const TaskTime& now) {
  if (!IsCounted(id)) return false;
  ++stats_.completed_by_update;
  Finish(id, TaskState::kCompleted, TaskEnd::kNone, now);
  return true;
}

void TaskTable::MakeAvailable(const TaskId& id, TaskRecord record, const TaskTime& now) {
  const bool exhausted = record.attempts >= id.group->info().attempts_max;
  if (!exhausted) {
    record.state = TaskState::kAvailable;
    record.request_id.clear();
    return Change(id, std::move(record));
  }
  Change(id, std::move(record));
  Finish(id, TaskState::kFailed, TaskEnd::kAttemptsExhausted, now);
}

void TaskTable::Advance(const TaskTime& now) {
  while (!lease_ends_.empty() && lease_ends_.begin()->first <= now.lease_ms) {
    const TaskId id = lease_ends_.begin()->second;
    ++stats_.leases_ended;
    if (CompleteIfCounted(id, now)) continue;
    TaskRecord task = RecordOf(id);
    task.last_failure = absl::StrCat("the lease of worker ", Quoted(task.worker), " ended");
    MakeAvailable(id, std::move(task), now);
  }
  while (!deadlines_.empty() && deadlines_.begin()->first <= now.steady) {
    TaskGroup& group = *deadlines_.begin()->second;
    // Passed once: if the journal is taken back, TakeBack() adds it again.
    deadlines_.erase(deadlines_.begin());
    CancelAll(group, TaskEnd::kDeadline, now);
  }
}

uint32_t TaskTable::TakeNext(TaskGroup& group, const TaskTime& now) {
  while (!group.queue_.empty()) {
    const uint32_t number = group.queue_.front();
    group.queue_.pop_front();
    const TaskId id{&group, number};
    if (group.task(number).state != TaskState::kAvailable) continue;  // cancelled meanwhile
    // Its update may have arrived after its last lease.
    if (!CompleteIfCounted(id, now)) return number;
  }
  return 0;
}

void TaskTable::Lease(const TaskId& id, const AcquireArgs& args, const TaskTime& now) {
  TaskRecord task = RecordOf(id);
  task.state = TaskState::kLeased;
  ++task.attempts;
  ++task.leases;
  task.token = next_token_++;
  task.lease_end_ms = now.lease_ms + id.group->info().lease.count();
  task.worker = args.worker;
  task.request_id = args.request_id;
  Change(id, std::move(task));
  ++stats_.acquired;
}

std::vector<TaskId> TaskTable::LeasesOfRequest(std::string_view tenant, const AcquireArgs& args) {
  std::vector<TaskId> leases;
  const auto worker = leased_.find(TenantKey(tenant, args.worker));
  if (args.request_id.empty() || worker == leased_.end()) return leases;
  for (const TaskId& id : worker->second) {
    if (RecordOf(id).request_id == args.request_id) leases.push_back(id);
  }
  // The order is that of the first answer.
  std::ranges::sort(leases, {}, [this](const TaskId& id) { return RecordOf(id).token; });
  return leases;
}

std::vector<TaskId> TaskTable::Acquire(std::string_view tenant, const AcquireArgs& args,
                                       const TaskTime& now) {
  std::vector<TaskId> taken = LeasesOfRequest(tenant, args);
  if (!taken.empty()) return taken;
  uint64_t bytes = 0;
  for (const std::string& pool : args.pools) {
    const std::string key = TenantKey(tenant, pool);
    uint64_t after = 0;  // groups up to this order were looked at
    while (taken.size() < args.max) {
      // Leasing changes the index, so it is searched again for each task.
      const auto found = available_.find(key);
      if (found == available_.end()) break;
      auto next = found->second.upper_bound(after);
      if (next == found->second.end()) break;
      TaskGroup& group = *next->second;
      const uint64_t size = group.info().payload->size();
      const bool suits = HasAll(args.capabilities, group.info().required_capabilities);
      if (!taken.empty() && suits && bytes + size > kAcquirePayloadBytesMax) return taken;
      const uint32_t number = suits ? TakeNext(group, now) : 0;
      if (number == 0) {
        after = group.info().order;
        continue;
      }
      Lease({&group, number}, args, now);
      taken.push_back({&group, number});
      bytes += size;
    }
  }
  if (taken.empty()) ++stats_.polls;
  return taken;
}

absl::Status TaskTable::CheckToken(const TaskId& id, uint64_t token) {
  const TaskRecord& task = RecordOf(id);
  if (task.state == TaskState::kLeased && task.token == token) return absl::OkStatus();
  ++stats_.fenced;
  const std::string name = TaskNameOf(PublicName(id.group->info().name), id.number);
  return WithMetadata(
      MakeError(absl::StatusCode::kFailedPrecondition, "TASK_FENCED",
                absl::StrCat("the lease of ", Quoted(name), " with token ", token,
                             " has ended; the task is ", std::string(TaskStateName(task.state)),
                             "; abandon it")),
      "state", TaskStateName(task.state));
}

absl::Status TaskTable::Renew(const TaskId& id, uint64_t token, const TaskTime& now) {
  SPARSEAGG_RETURN_IF_ERROR(CheckToken(id, token));
  TaskRecord task = RecordOf(id);
  task.lease_end_ms = now.lease_ms + id.group->info().lease.count();
  Change(id, std::move(task));
  ++stats_.renewed;
  return absl::OkStatus();
}

absl::Status TaskTable::Complete(const TaskId& id, uint64_t token, const TaskTime& now) {
  TaskRecord task = RecordOf(id);
  if (task.state == TaskState::kCompleted && task.answered_token == token && token != 0) {
    return absl::OkStatus();  // a retry
  }
  SPARSEAGG_RETURN_IF_ERROR(CheckToken(id, token));
  if (!IsCounted(id)) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "UPDATE_NOT_COUNTED",
                     absl::StrCat(Quoted(PublicName(id.group->info().round)),
                                  " has counted no update of ", Quoted(id.contributor()),
                                  "; submit it, then complete the task with its receipt"));
  }
  task.answered_token = token;
  Change(id, std::move(task));
  Finish(id, TaskState::kCompleted, TaskEnd::kNone, now);
  return absl::OkStatus();
}

absl::Status TaskTable::Fail(const TaskId& id, uint64_t token, const FailArgs& args,
                             const TaskTime& now) {
  TaskRecord task = RecordOf(id);
  if (task.state != TaskState::kLeased && task.answered_token == token && token != 0) {
    return absl::OkStatus();  // a retry
  }
  SPARSEAGG_RETURN_IF_ERROR(CheckToken(id, token));
  ++(args.handed_back ? stats_.handed_back : stats_.worker_failures);
  task.answered_token = token;
  Change(id, task);
  if (CompleteIfCounted(id, now)) return absl::OkStatus();
  if (!args.reason.empty() || !args.handed_back) task.last_failure = args.reason;
  if (args.handed_back) --task.attempts;
  if (args.handed_back || args.retryable) {
    MakeAvailable(id, std::move(task), now);
    return absl::OkStatus();
  }
  Change(id, std::move(task));
  Finish(id, TaskState::kFailed, TaskEnd::kNotRetryable, now);
  return absl::OkStatus();
}

bool TaskTable::Cancel(const TaskId& id, TaskEnd why, const TaskTime& now) {
  if (IsFinal(RecordOf(id).state) || CompleteIfCounted(id, now)) return false;
  const bool failed = why == TaskEnd::kDeadline;
  Finish(id, failed ? TaskState::kFailed : TaskState::kCancelled, why, now);
  return true;
}

uint64_t TaskTable::CancelAll(TaskGroup& group, TaskEnd why, const TaskTime& now) {
  uint64_t cancelled = 0;
  if (group.available_count_ + group.leased_count_ == 0) return 0;
  for (uint32_t number = 1; number <= group.info().count; ++number) {
    cancelled += Cancel({&group, number}, why, now) ? 1 : 0;
  }
  return cancelled;
}

}  // namespace sparseagg
