#include "service/rpc/wire/task_proto.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/rpc/wire/round_proto.h"
#include "service/rpc/wire/time_proto.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;

constexpr int kPageSizeDefault = 50;
constexpr int kPageSizeMax = 1000;

static_assert(static_cast<int>(TaskState::kAvailable) == v1::TASK_STATE_AVAILABLE);
static_assert(static_cast<int>(TaskState::kLeased) == v1::TASK_STATE_LEASED);
static_assert(static_cast<int>(TaskState::kCompleted) == v1::TASK_STATE_COMPLETED);
static_assert(static_cast<int>(TaskState::kFailed) == v1::TASK_STATE_FAILED);
static_assert(static_cast<int>(TaskState::kCancelled) == v1::TASK_STATE_CANCELLED);

absl::StatusOr<TaskGroupSpec> FromProto(const v1::TaskGroupSpec& proto) {
  TaskGroupSpec spec{.group_id = proto.group_id(),
                     .pool = proto.pool(),
                     .round = proto.round(),
                     .payload = proto.payload()};
  if (proto.tasks_case() == v1::TaskGroupSpec::kCount) spec.count = proto.count();
  if (proto.tasks_case() == v1::TaskGroupSpec::kPercentOfGoal) {
    spec.percent_of_goal = proto.percent_of_goal();
  }
  const auto& contributors = proto.contributors().contributors();
  spec.contributors.assign(contributors.begin(), contributors.end());
  spec.required_capabilities.assign(proto.required_capabilities().begin(),
                                    proto.required_capabilities().end());
  // One more than is accepted, so that longer ones are refused.
  constexpr milliseconds kLeaseLongest{24 * 3600 * 1000 + 1};
  SPARSEAGG_ASSIGN_OR_RETURN(spec.lease,
                             ToMilliseconds(proto.has_lease() ? &proto.lease() : nullptr, "lease",
                                            kTaskLeaseDefault, kLeaseLongest));
  if (proto.attempts_max() != 0) spec.attempts_max = proto.attempts_max();
  if (proto.has_open_for()) {
    SPARSEAGG_ASSIGN_OR_RETURN(spec.open_for, ToMilliseconds(&proto.open_for(), "open_for", {},
                                                             kPolicyTimeMax + milliseconds(1)));
  }
  if (proto.has_open_until()) spec.open_until = ToTime(proto.open_until());
  return spec;
}

}  // namespace

v1::TaskGroup ToProto(const TaskGroupSnapshot& group) {
  v1::TaskGroup proto;
  proto.set_name(group.name);
  proto.set_pool(group.pool);
  proto.set_round(group.round);
  proto.set_tasks(group.tasks);
  proto.set_available(group.available);
  proto.set_leased(group.leased);
  proto.set_completed(group.completed);
  proto.set_failed(group.failed);
  proto.set_cancelled(group.cancelled);
  proto.set_leases(group.leases);
  proto.set_revision(group.revision);
  SetTimestamp(group.create_time, proto.mutable_create_time());
  if (group.deadline.has_value()) SetTimestamp(*group.deadline, proto.mutable_deadline());
  proto.set_durability(ToProto(group.durability));
  return proto;
}

v1::TaskLease ToProto(const std::string& task, const TaskLease& lease) {
  v1::TaskLease proto;
  proto.set_task(task);
  proto.set_token(lease.token);
  SetDuration(lease.time_left, proto.mutable_time_left());
  SetDuration(lease.duration, proto.mutable_duration());
  return proto;
}

v1::Task ToProto(const TaskSnapshot& task) {
  v1::Task proto;
  proto.set_name(task.name);
  proto.set_pool(task.pool);
  proto.set_round(task.round);
  proto.set_contributor(task.contributor);
  if (task.payload != nullptr) proto.set_payload(*task.payload);
  proto.set_state(static_cast<v1::TaskState>(task.state));
  if (task.lease.has_value()) *proto.mutable_lease() = ToProto(task.name, *task.lease);
  proto.set_worker(task.worker);
  proto.set_attempts(task.attempts);
  proto.set_attempts_max(task.attempts_max);
  proto.set_leases(task.leases);
  SetTimestamp(task.create_time, proto.mutable_create_time());
  if (task.end_time.has_value()) SetTimestamp(*task.end_time, proto.mutable_end_time());
  if (task.deadline.has_value()) SetTimestamp(*task.deadline, proto.mutable_deadline());
  proto.set_end_reason(std::string(TaskEndName(task.end)));
  proto.set_last_failure(task.last_failure);
  return proto;
}

v1::AcquireTasksResponse ToProto(const AcquiredTasks& acquired) {
  v1::AcquireTasksResponse proto;
  for (const TaskSnapshot& task : acquired.tasks) *proto.add_tasks() = ToProto(task);
  if (acquired.tasks.empty()) {
    SetDuration(acquired.retry.min, proto.mutable_retry()->mutable_min());
    SetDuration(acquired.retry.max, proto.mutable_retry()->mutable_max());
  }
  return proto;
}

v1::ListTasksResponse ToProto(const TaskPage& page) {
  v1::ListTasksResponse proto;
  for (const TaskSnapshot& task : page.tasks) *proto.add_tasks() = ToProto(task);
  proto.set_next_page_token(page.next_page_token);
  return proto;
}

absl::StatusOr<CreateTasksArgs> FromProto(const std::string& tenant,
                                          const v1::CreateTasksRequest& proto) {
  CreateTasksArgs args{.tenant = tenant, .request_id = proto.request_id()};
  args.groups.reserve(static_cast<size_t>(proto.groups_size()));
  for (const v1::TaskGroupSpec& group : proto.groups()) {
    SPARSEAGG_ASSIGN_OR_RETURN(TaskGroupSpec spec, FromProto(group));
    args.groups.push_back(std::move(spec));
  }
  return args;
}

AcquireArgs FromProto(const v1::AcquireTasksRequest& proto) {
  return {.worker = proto.worker(),
          .pools = {proto.pools().begin(), proto.pools().end()},
          .capabilities = {proto.capabilities().begin(), proto.capabilities().end()},
          .max = proto.max() == 0 ? 1 : proto.max(),
          .request_id = proto.request_id()};
}

absl::StatusOr<ListTasksArgs> FromProto(const v1::ListTasksRequest& proto) {
  if (proto.page_size() < 0) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_PAGE_SIZE",
                     absl::StrCat("page_size is ", proto.page_size(), "; use 0 to ", kPageSizeMax));
  }
  if (!v1::TaskState_IsValid(proto.state())) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_TASK_REQUEST",
                     absl::StrCat("state ", static_cast<int>(proto.state()),
                                  " is unknown to this version; use a TaskState"));
  }
  const int page_size =
      proto.page_size() == 0 ? kPageSizeDefault : std::min(proto.page_size(), kPageSizeMax);
  ListTasksArgs args{.group = proto.group(),
                     .pool = proto.pool(),
                     .state = std::nullopt,
                     .page_token = proto.page_token(),
                     .page_size = static_cast<size_t>(page_size)};
  if (proto.state() != v1::TASK_STATE_UNSPECIFIED) {
    args.state = static_cast<TaskState>(proto.state());
  }
  return args;
}

TaskLeaseKey FromProto(const v1::TaskLease& proto) {
  return {.task = proto.task(), .token = proto.token()};
}

Receipt FromProto(const v1::Receipt& proto) {
  return {.round = proto.round(),
          .contributor = proto.contributor(),
          .update_id = proto.update_id(),
          .digest = proto.digest()};
}

}  // namespace sparseagg
