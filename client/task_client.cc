#include "client/task_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/transport/address.h"
#include "client/transport/call.h"
#include "client/transport/connections.h"
#include "client/transport/credentials.h"
#include "client/transport/retry.h"
#include "proto/error_details.h"
#include "sparseagg/v1/tasks.grpc.pb.h"

namespace sparseagg::client {
namespace {

using std::chrono::milliseconds;
using TaskStub = v1::TaskService::StubInterface;

constexpr int kListPageSize = 1000;
// The longest call of WaitTasks; shorter waits detect a dead server earlier.
constexpr uint64_t kWaitMsMax = 30'000;
constexpr std::string_view kStateNames[] = {"AVAILABLE", "LEASED", "COMPLETED", "FAILED",
                                            "CANCELLED"};

std::string RandomId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&id, absl::Hex(random(), absl::kZeroPad8));
  return id;
}

std::string GroupName(const std::string& name) {
  return name.find('/') == std::string::npos ? absl::StrCat("taskgroups/", name) : name;
}

// Names with the prefix are passed on as they are, so that the server names what is wrong.
std::string TaskName(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos || name.starts_with("taskgroups/")) return GroupName(name);
  return absl::StrCat("taskgroups/", name.substr(0, slash), "/tasks/", name.substr(slash + 1));
}

milliseconds ToMs(const google::protobuf::Duration& duration) {
  return std::chrono::ceil<milliseconds>(std::chrono::seconds(duration.seconds()) +
                                         std::chrono::nanoseconds(duration.nanos()));
}

void SetMs(milliseconds time, google::protobuf::Duration& duration) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  duration.set_seconds(seconds.count());
  duration.set_nanos(static_cast<int32_t>(std::chrono::nanoseconds(time - seconds).count()));
}

Time ToTime(const google::protobuf::Timestamp& stamp) {
  return Time(std::chrono::duration_cast<Time::duration>(std::chrono::seconds(stamp.seconds()) +
                                                         std::chrono::nanoseconds(stamp.nanos())));
}

TaskLease FromProto(const v1::TaskLease& proto) {
  return {.task = proto.task(),
          .token = proto.token(),
          .time_left = ToMs(proto.time_left()),
          .duration = ToMs(proto.duration())};
}

void Set(const TaskLease& lease, v1::TaskLease& proto) {
  proto.set_task(lease.task);
  proto.set_token(lease.token);
}

TaskInfo FromProto(const v1::Task& proto) {
  TaskInfo task{.name = proto.name(),
                .pool = proto.pool(),
                .round = proto.round(),
                .contributor = proto.contributor(),
                .payload = proto.payload(),
                .state = static_cast<TaskState>(proto.state()),
                .lease = FromProto(proto.lease()),
                .worker = proto.worker(),
                .attempts = proto.attempts(),
                .attempts_max = proto.attempts_max(),
                .leases = proto.leases(),
                .end_reason = proto.end_reason(),
                .last_failure = proto.last_failure()};
  if (proto.has_create_time()) task.create_time = ToTime(proto.create_time());
  if (proto.has_end_time()) task.end_time = ToTime(proto.end_time());
  if (proto.has_deadline()) task.deadline = ToTime(proto.deadline());
  return task;
}

TaskGroupInfo FromProto(const v1::TaskGroup& proto) {
  return {.name = proto.name(),
          .pool = proto.pool(),
          .round = proto.round(),
          .tasks = proto.tasks(),
          .available = proto.available(),
          .leased = proto.leased(),
          .completed = proto.completed(),
          .failed = proto.failed(),
          .cancelled = proto.cancelled(),
          .leases = proto.leases(),
          .revision = proto.revision(),
          .durability = static_cast<Durability>(proto.durability())};
}

void Set(const NewTaskGroup& group, v1::TaskGroupSpec& proto) {
  proto.set_group_id(group.id);
  proto.set_pool(group.pool);
  proto.set_round(RoundName(group.round));
  if (group.count > 0) proto.set_count(group.count);
  if (group.percent_of_goal > 0) proto.set_percent_of_goal(group.percent_of_goal);
  for (const std::string& contributor : group.contributors) {
    proto.mutable_contributors()->add_contributors(contributor);
  }
  proto.set_payload(group.payload);
  for (const std::string& word : group.required_capabilities) {
    proto.add_required_capabilities(word);
  }
  if (group.lease.has_value()) SetMs(*group.lease, *proto.mutable_lease());
  proto.set_attempts_max(group.attempts_max);
  if (group.open_for.has_value()) SetMs(*group.open_for, *proto.mutable_open_for());
  if (group.open_until.has_value()) {
    const auto since =
        std::chrono::floor<std::chrono::seconds>(group.open_until->time_since_epoch());
    proto.mutable_open_until()->set_seconds(since.count());
  }
}

}  // namespace

std::string_view TaskStateName(TaskState state) {
  const auto index = static_cast<size_t>(state) - 1;
  return index < std::size(kStateNames) ? kStateNames[index] : "UNKNOWN";
}

std::optional<TaskState> ParseTaskState(std::string_view name) {
  for (size_t i = 0; i < std::size(kStateNames); ++i) {
    if (kStateNames[i] == name) return static_cast<TaskState>(i + 1);
  }
  return std::nullopt;
}

struct TaskClient::Impl {
  Caller caller;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<TaskStub> stub;

  // Runs the unary method until it succeeds or must not be repeated. `extra_ms`: the time that the
  // server may take to answer.
  template <class Request, class Response>
  absl::StatusOr<Response> Call(grpc::Status (TaskStub::*method)(grpc::ClientContext*,
                                                                 const Request&, Response*),
                                const Request& request, uint64_t extra_ms = 0) {
    const uint64_t limit = caller.options.call_timeout_ms;
    RetryLoop retry(caller.options, {limit == 0 ? 0 : limit + extra_ms, 0});
    for (;;) {
      absl::StatusOr<Response> response = Attempt(method, request, retry.attempt_ms());
      if (response.ok() || !retry.WaitToRetry(response.status())) return response;
    }
  }

  template <class Request, class Response>
  absl::StatusOr<Response> Attempt(grpc::Status (TaskStub::*method)(grpc::ClientContext*,
                                                                    const Request&, Response*),
                                   const Request& request, uint64_t timeout_ms) {
    grpc::ClientContext context;
    SPARSEAGG_RETURN_IF_ERROR(Prepare(context, caller, timeout_ms));
    Response response;
    SPARSEAGG_RETURN_IF_ERROR(
        ToStatus((stub.get()->*method)(&context, request, &response), caller.route));
    return response;
  }

  absl::StatusOr<TaskInfo> Fail(const v1::FailTaskRequest& request) {
    SPARSEAGG_ASSIGN_OR_RETURN(const v1::Task task, Call(&TaskStub::FailTask, request));
    return FromProto(task);
  }
};

TaskClient::TaskClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TaskClient::~TaskClient() {
  // As in Client: a forked child must not wait for threads that it does not have.
  if (!CheckProcess(impl_->caller.process).ok()) static_cast<void>(impl_.release());
}

absl::StatusOr<std::unique_ptr<TaskClient>> TaskClient::Connect(const std::string& target,
                                                                ClientOptions options) {
  SPARSEAGG_ASSIGN_OR_RETURN(const Address address, ParseAddress(target));
  auto impl = std::make_unique<Impl>();
  const bool by_tls = options.tls.has_value() || address.tls.value_or(false);
  impl->caller = {.route = RouteTo(address, by_tls), .options = std::move(options)};
  SPARSEAGG_ASSIGN_OR_RETURN(const auto credentials,
                             MakeChannelCredentials(address, impl->caller.options));
  impl->channel = MakeChannel(impl->caller.route, credentials);
  impl->stub = v1::TaskService::NewStub(impl->channel);
  if (!impl->caller.options.sleep) {
    impl->caller.options.sleep = [&channel = *impl->channel](uint64_t ms) {
      SleepWhileConnecting(channel, ms);
    };
  }
  return std::unique_ptr<TaskClient>(new TaskClient(std::move(impl)));
}

absl::StatusOr<std::vector<TaskGroupInfo>> TaskClient::Create(std::span<const NewTaskGroup> groups,
                                                              const std::string& request_id) {
  v1::CreateTasksRequest request;
  request.set_request_id(request_id.empty() ? RandomId() : request_id);
  for (const NewTaskGroup& group : groups) {
    const int ways = (group.count > 0 ? 1 : 0) + (group.percent_of_goal > 0 ? 1 : 0) +
                     (group.contributors.empty() ? 0 : 1);
    if (ways > 1) {
      return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_TASK_GROUP",
                       "set one of count, percent_of_goal and contributors");
    }
    Set(group, *request.add_groups());
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const v1::CreateTasksResponse response,
                             impl_->Call(&TaskStub::CreateTasks, request));
  std::vector<TaskGroupInfo> created;
  for (const v1::TaskGroup& group : response.groups()) created.push_back(FromProto(group));
  return created;
}

absl::StatusOr<TaskInfo> TaskClient::Get(const std::string& task) {
  v1::GetTaskRequest request;
  request.set_name(TaskName(task));
  SPARSEAGG_ASSIGN_OR_RETURN(const v1::Task response, impl_->Call(&TaskStub::GetTask, request));
  return FromProto(response);
}

absl::StatusOr<std::vector<TaskInfo>> TaskClient::List(const TaskFilter& filter) {
  v1::ListTasksRequest request;
  if (!filter.group.empty()) request.set_group(GroupName(filter.group));
  request.set_pool(filter.pool);
  if (filter.state.has_value()) request.set_state(static_cast<v1::TaskState>(*filter.state));
  request.set_page_size(kListPageSize);
  std::vector<TaskInfo> tasks;
  do {
    SPARSEAGG_ASSIGN_OR_RETURN(const v1::ListTasksResponse page,
                               impl_->Call(&TaskStub::ListTasks, request));
    for (const v1::Task& task : page.tasks()) tasks.push_back(FromProto(task));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return tasks;
}

absl::StatusOr<uint64_t> TaskClient::Cancel(std::span<const std::string> names) {
  v1::CancelTasksRequest request;
  for (const std::string& name : names) request.add_names(TaskName(name));
  SPARSEAGG_ASSIGN_OR_RETURN(const v1::CancelTasksResponse response,
                             impl_->Call(&TaskStub::CancelTasks, request));
  return response.cancelled();
}

absl::StatusOr<TaskGroupInfo> TaskClient::Wait(const std::string& group, uint64_t after_revision,
                                               uint64_t timeout_ms) {
  v1::WaitTasksRequest request;
  request.set_group(GroupName(group));
  request.set_after_revision(after_revision);
  for (uint64_t left_ms = timeout_ms;;) {
    const uint64_t wait_ms = std::min(left_ms, kWaitMsMax);
    SetMs(milliseconds(wait_ms), *request.mutable_timeout());
    SPARSEAGG_ASSIGN_OR_RETURN(const v1::TaskGroup response,
                               impl_->Call(&TaskStub::WaitTasks, request, wait_ms));
    TaskGroupInfo info = FromProto(response);
    left_ms -= wait_ms;
    const bool is_newer = after_revision > 0 && info.revision > after_revision;
    if (info.finished() || is_newer || left_ms == 0) return info;
  }
}

absl::StatusOr<AcquiredTasks> TaskClient::Acquire(const AcquireRequest& acquire) {
  v1::AcquireTasksRequest request;
  request.set_worker(acquire.worker);
  for (const std::string& pool : acquire.pools) request.add_pools(pool);
  for (const std::string& word : acquire.capabilities) request.add_capabilities(word);
  request.set_max(acquire.max);
  request.set_request_id(acquire.request_id.empty() ? RandomId() : acquire.request_id);
  SPARSEAGG_ASSIGN_OR_RETURN(const v1::AcquireTasksResponse response,
                             impl_->Call(&TaskStub::AcquireTasks, request));
  AcquiredTasks acquired{.retry_min = ToMs(response.retry().min()),
                         .retry_max = ToMs(response.retry().max())};
  for (const v1::Task& task : response.tasks()) acquired.tasks.push_back(FromProto(task));
  return acquired;
}

absl::StatusOr<std::vector<absl::StatusOr<TaskLease>>> TaskClient::Renew(
    std::span<const TaskLease> leases) {
  v1::RenewTasksRequest request;
  for (const TaskLease& lease : leases) Set(lease, *request.add_leases());
  SPARSEAGG_ASSIGN_OR_RETURN(const v1::RenewTasksResponse response,
                             impl_->Call(&TaskStub::RenewTasks, request));
  std::vector<absl::StatusOr<TaskLease>> renewed;
  for (const v1::RenewedLease& lease : response.leases()) {
    if (lease.has_error()) {
      renewed.push_back(sparseagg::FromProto(lease.error()));
    } else {
      renewed.push_back(FromProto(lease.lease()));
    }
  }
  return renewed;
}

absl::StatusOr<TaskInfo> TaskClient::Complete(const TaskLease& lease, const Receipt& receipt) {
  v1::CompleteTaskRequest request;
  Set(lease, *request.mutable_lease());
  request.mutable_receipt()->set_round(receipt.round);
  request.mutable_receipt()->set_contributor(receipt.contributor);
  request.mutable_receipt()->set_update_id(receipt.update_id);
  request.mutable_receipt()->set_digest(receipt.digest);
  SPARSEAGG_ASSIGN_OR_RETURN(const v1::Task task, impl_->Call(&TaskStub::CompleteTask, request));
  return FromProto(task);
}

absl::StatusOr<TaskInfo> TaskClient::Fail(const TaskLease& lease, const std::string& reason,
                                          bool retryable) {
  v1::FailTaskRequest request;
  Set(lease, *request.mutable_lease());
  request.set_reason(reason);
  request.set_retryable(retryable);
  return impl_->Fail(request);
}

absl::StatusOr<TaskInfo> TaskClient::HandBack(const TaskLease& lease) {
  v1::FailTaskRequest request;
  Set(lease, *request.mutable_lease());
  request.set_handed_back(true);
  return impl_->Fail(request);
}

}  // namespace sparseagg::client
