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

// The most leases that a step ends: about 50 ms of work.
constexpr int kLeaseEndsPerStep = 20'000;

// Takes the place of a text for which there is no room. It needs no memory of its own.
constexpr char kNotKept[] = "(not kept)";

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
  task.end_time_ms = now.wall_ms();
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
  std::string buffer;
  return counted_(id.group->info().round, id.group->ContributorOf(id.number, buffer));
}

bool TaskTable::CompleteIfCounted(const TaskId& id, const TaskTime& now) {
  if (!IsCounted(id)) return false;
  ++stats_.completed_by_update;
  Finish(id, TaskState::kCompleted, TaskEnd::kNone, now);
  return true;
}

std::string TaskTable::TextToKeep(std::string text) const {
  return bytes_ + text.size() <= text_bytes_max_ ? std::move(text) : kNotKept;
}

void TaskTable::MakeAvailable(const TaskId& id, TaskRecord record, const TaskTime& now) {
  const bool exhausted = record.attempts >= id.group->info().attempts_max;
  if (!exhausted) {
    record.state = TaskState::kAvailable;
    return Change(id, std::move(record));
  }
  Change(id, std::move(record));
  Finish(id, TaskState::kFailed, TaskEnd::kAttemptsExhausted, now);
}

void TaskTable::Advance(const TaskTime& now) {
  for (int ends = 0; ends < kLeaseEndsPerStep; ++ends) {
    if (lease_ends_.empty() || lease_ends_.begin()->first > now.lease_ms) break;
    const TaskId id = lease_ends_.begin()->second;
    ++stats_.leases_ended;
    if (CompleteIfCounted(id, now)) continue;
    TaskRecord task = RecordOf(id);
    task.last_failure =
        TextToKeep(absl::StrCat("the lease of worker ", Quoted(task.worker), " ended"));
    MakeAvailable(id, std::move(task), now);
  }
  while (!deadlines_.empty() && deadlines_.begin()->first <= now.steady) {
    TaskGroup& group = *deadlines_.begin()->second;
    // Passed once: if the journal is taken back, TakeBack() adds it again.
    deadlines_.erase(deadlines_.begin());
    CancelAll(group, TaskEnd::kDeadline, now);
  }
}

uint32_t TaskTable::PopNext(TaskGroup& group) {
  while (group.next_untouched_ <= group.info().count) {
    const uint32_t number = group.next_untouched_++;
    if (!group.is_queued_[number - 1]) return number;
  }
  if (group.queue_.empty()) return 0;
  const uint32_t number = group.queue_.front();
  group.queue_.pop_front();
  group.is_queued_[number - 1] = false;
  return number;
}

uint32_t TaskTable::TakeNext(TaskGroup& group, const TaskTime& now) {
  while (const uint32_t number = PopNext(group)) {
    if (group.task(number).state != TaskState::kAvailable) continue;  // cancelled meanwhile
    // Its update may have arrived after its last lease.
    if (!CompleteIfCounted({&group, number}, now)) return number;
  }
  return 0;
}

void TaskTable::Lease(const TaskId& id, const AcquireArgs& args, const RequestKey& request,
                      const TaskTime& now) {
  TaskRecord task = RecordOf(id);
  task.state = TaskState::kLeased;
  ++task.attempts;
  ++task.leases;
  task.token = next_token_++;
  task.answered_token = 0;
  task.lease_end_ms = now.lease_ms + id.group->info().lease.count();
  task.worker = std::string(args.worker);
  task.request = request;
  Change(id, std::move(task));
  ++stats_.acquired;
}

std::vector<TaskId> TaskTable::LeasesOfRequest(std::string_view tenant, const AcquireArgs& args,
                                               const RequestKey& request,
                                               const TaskTime& now) const {
  std::vector<TaskId> leases;
  const auto worker = leased_.find(TenantKey(tenant, args.worker));
  if (worker == leased_.end()) return leases;
  for (const TaskId& id : worker->second) {
    // Advance() may not have ended all leases that are over.
    const TaskRecord& task = id.record();
    if (task.request == request && task.lease_end_ms > now.lease_ms) leases.push_back(id);
  }
  // The order is that of the first answer.
  std::ranges::sort(leases, {}, [](const TaskId& id) { return id.record().token; });
  return leases;
}

TaskGroup* TaskTable::FirstOf(const Pool& pool, const std::vector<std::string>& capabilities) {
  TaskGroup* first = nullptr;
  for (const auto& [required, groups] : pool) {
    TaskGroup* const group = groups.begin()->second;
    const bool is_earlier = first == nullptr || group->info().order < first->info().order;
    if (is_earlier && HasAll(capabilities, required)) first = group;
  }
  return first;
}

void TaskTable::AcquireFrom(std::string_view pool_key, const AcquireArgs& args,
                            const RequestKey& request, const TaskTime& now,
                            std::vector<TaskId>& taken, uint64_t& bytes) {
  while (taken.size() < args.max) {
    // Leasing changes the index, so it is searched again for each task.
    const auto pool = available_.find(pool_key);
    TaskGroup* const group =
        pool == available_.end() ? nullptr : FirstOf(pool->second, args.capabilities);
    if (group == nullptr) return;
    const uint64_t size = group->info().payload->size();
    if (!taken.empty() && bytes + size > kAcquirePayloadBytesMax) {
      bytes = kAcquirePayloadBytesMax;
      return;
    }
    const uint32_t number = TakeNext(*group, now);
    if (number == 0 && group->available_count_ > 0) return;  // never
    if (number == 0) continue;  // all that were left are completed, so the group left the index
    Lease({group, number}, args, request, now);
    taken.push_back({group, number});
    bytes += size;
  }
}

TaskTable::Acquired TaskTable::Acquire(std::string_view tenant, const AcquireArgs& args,
                                       const TaskTime& now) {
  const RequestKey request = KeyOfRequest(tenant, args.worker, args.request_id);
  Acquired acquired;
  if (!request.empty()) {
    acquired.tasks = LeasesOfRequest(tenant, args, request, now);
    if (!acquired.tasks.empty()) return acquired;
  }
  // The leases of a request that is remembered have ended: nobody waits for new ones.
  if (request.empty() || acquisitions_.Find(tenant, request) == nullptr) {
    uint64_t bytes = 0;
    for (const std::string& pool : args.pools) {
      AcquireFrom(TenantKey(tenant, pool), args, request, now, acquired.tasks, bytes);
      if (bytes >= kAcquirePayloadBytesMax) break;
    }
  }
  acquired.is_new = !acquired.tasks.empty();
  if (!acquired.is_new) ++stats_.polls;
  if (acquired.is_new && !request.empty()) {
    acquisitions_.Add(tenant, request, {}, now.wall_ms());
    acquired_.emplace_back(tenant, request);
  }
  return acquired;
}

absl::Status TaskTable::CheckToken(const TaskId& id, uint64_t token, const TaskTime& now) {
  const TaskRecord& task = RecordOf(id);
  const bool is_valid =
      task.state == TaskState::kLeased && task.token == token && task.lease_end_ms > now.lease_ms;
  if (is_valid) return absl::OkStatus();
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
  SPARSEAGG_RETURN_IF_ERROR(CheckToken(id, token, now));
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
  SPARSEAGG_RETURN_IF_ERROR(CheckToken(id, token, now));
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
  SPARSEAGG_RETURN_IF_ERROR(CheckToken(id, token, now));
  ++(args.handed_back ? stats_.handed_back : stats_.worker_failures);
  task.answered_token = token;
  Change(id, task);
  if (CompleteIfCounted(id, now)) return absl::OkStatus();
  if (!args.reason.empty() || !args.handed_back)
    task.last_failure = TextToKeep(std::string(args.reason));
  if (args.handed_back && task.attempts > 0) --task.attempts;
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

// --- The end of a group ---

TaskTable::EndedGroup TaskTable::EndAll(TaskGroup& group, TaskGroupEnd end,
                                        const std::function<bool(uint32_t)>& is_completed) {
  EndedGroup ended{.group = &group};
  if (group.available_count_ > 0) LeaveAvailable(group);
  auto& completed = end.completed;
  for (uint32_t number = 1; number <= group.info().count; ++number) {
    TaskRecord& task = group.tasks_[number - 1];
    if (IsFinal(task.state)) continue;
    const bool was_leased = task.state == TaskState::kLeased;
    if (was_leased) LeaveLease({&group, number}, task);
    (was_leased ? ended.leased : ended.available).push_back(number);
    const bool is = is_completed(number);
    task.state = is ? TaskState::kCompleted : end.state;
    task.end = is ? TaskEnd::kNone : end.why;
    task.end_time_ms = end.end_time_ms;
    ++CountOf(group, task.state);
    if (!is) continue;
    if (!completed.empty() && completed.back().second + 1 == number) {
      ++completed.back().second;
    } else {
      completed.emplace_back(number, number);
    }
  }
  group.available_count_ = 0;
  group.leased_count_ = 0;
  ended.end = std::move(end);
  return ended;
}

void TaskTable::TakeBackEnd(const EndedGroup& ended) {
  TaskGroup& group = *ended.group;
  const auto take_back = [&](const std::vector<uint32_t>& numbers, TaskState state) {
    for (const uint32_t number : numbers) {
      TaskRecord& task = group.tasks_[number - 1];
      --CountOf(group, task.state);
      task.state = state;
      task.end = TaskEnd::kNone;
      task.end_time_ms = 0;
      ++CountOf(group, state);
      if (state == TaskState::kLeased) EnterLease({&group, number}, task);
    }
  };
  take_back(ended.available, TaskState::kAvailable);
  take_back(ended.leased, TaskState::kLeased);
  if (group.available_count_ > 0) EnterAvailable(group);
}

uint64_t TaskTable::CancelAll(TaskGroup& group, TaskEnd why, const TaskTime& now) {
  const uint64_t unfinished = group.unfinished();
  if (unfinished == 0) return 0;
  const uint64_t completed_before = group.completed_count_;
  const bool fails = why == TaskEnd::kDeadline;
  std::string buffer;
  ended_.push_back(EndAll(group,
                          {.state = fails ? TaskState::kFailed : TaskState::kCancelled,
                           .why = why,
                           .end_time_ms = now.wall_ms()},
                          [&](uint32_t number) {
                            return counted_(group.info().round,
                                            group.ContributorOf(number, buffer));
                          }));
  const uint64_t completed = group.completed_count_ - completed_before;
  stats_.completed += completed;
  stats_.completed_by_update += completed;
  (fails ? stats_.failed : stats_.cancelled) += unfinished - completed;
  return unfinished - completed;
}

void TaskTable::Suspend(TaskGroup& group, const TaskTime& now) {
  if (group.available_count_ > 0) LeaveAvailable(group);
  group.is_suspended_ = true;
  for (uint32_t number = 1; number <= group.info().count; ++number) {
    const TaskId id{&group, number};
    if (id.record().state != TaskState::kLeased || CompleteIfCounted(id, now)) continue;
    TaskRecord task = id.record();
    if (task.attempts > 0) --task.attempts;
    MakeAvailable(id, std::move(task), now);
  }
}

void TaskTable::RestoreEnd(TaskGroup& group, const TaskGroupEnd& end) {
  auto range = end.completed.begin();
  const TaskGroupEnd rest{.state = end.state, .why = end.why, .end_time_ms = end.end_time_ms};
  EndAll(group, rest, [&](uint32_t number) {
    while (range != end.completed.end() && range->second < number) ++range;
    return range != end.completed.end() && range->first <= number;
  });
  Commit(group);
}

}  // namespace sparseagg
