#include "service/rpc/tasks/task_service.h"

#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "proto/error_details.h"
#include "service/rpc/tasks/wait_tasks.h"
#include "service/rpc/unary_call.h"
#include "service/rpc/wire/message_bytes.h"
#include "service/rpc/wire/received_update.h"
#include "service/rpc/wire/status_table.h"
#include "service/rpc/wire/task_proto.h"
#include "service/store/store_errors.h"

namespace sparseagg {
namespace {

// These threads mostly wait for the disk; their number is that of the calls that one commit can
// hold.
constexpr int kCommitThreads = 64;

// Beyond these, calls are refused: 10,000 heartbeats take two seconds on a disk with 5 ms for a
// commit, and a call of CreateTasks may have megabytes of payloads.
constexpr uint64_t kWaitingCallsMax = 10'000;
constexpr uint64_t kWaitingBytesMax = uint64_t{128} << 20;

using Share = WaitingCalls::Share;

// How late a lease or a deadline may end for those that wait. Every call ends them, too.
constexpr std::chrono::milliseconds kTickInterval{250};

// A caller without one of these roles sees its own tasks only.
TaskViewer ViewerOf(const Caller& caller) {
  if (caller.roles.HasAnyOf({Role::kOwner, Role::kOperator})) return {};
  return {.worker = caller.principal};
}

}  // namespace

TaskService::TaskService(CallAuthoriser& authoriser, Tasks& tasks)
    : authoriser_(authoriser),
      tasks_(tasks),
      waiting_(kWaitingCallsMax, kWaitingBytesMax),
      commits_(kCommitThreads, "tasks"),
      ticks_(kTickInterval, [this] { tasks_.Tick(); }) {}

void TaskService::Drain() {
  draining_ = true;
  drain_list_.DrainAll();
}

template <typename Request, typename Handle>
grpc::ServerUnaryReactor* TaskService::Serve(grpc::CallbackServerContext& context,
                                             const Method& method, const grpc::ByteBuffer* request,
                                             grpc::ByteBuffer* response, Handle handle) {
  auto call = authoriser_.Authorise(context, method.rpc);
  if (!call.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, call.status());
  auto place = waiting_.Enter(request->Length(), method.share);
  if (place == nullptr) {
    return Refuse<grpc::ServerUnaryReactor>(
        calls_, StoreBusy("too many calls about tasks wait for the disk; try again"));
  }
  const auto work = [call = *std::move(call), request, response, place = std::move(place),
                     handle = std::move(handle)]() -> absl::Status {
    Request parsed;
    SPARSEAGG_RETURN_IF_ERROR(
        ReadRequest(MessageBytes(*request).chain(), request->Length(), &parsed));
    return handle(call, parsed, response);
  };
  if (tasks_.waits_for_disk()) return RunIn(commits_, calls_, work);
  return Run(calls_, work);
}

grpc::ServerUnaryReactor* TaskService::CreateTasks(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) noexcept {
  return Serve<v1::CreateTasksRequest>(
      *context, {"CreateTasks"}, request, response,
      [this](const AuthorisedCall& call, const v1::CreateTasksRequest& create,
             grpc::ByteBuffer* answer) -> absl::Status {
        if (draining_) return DrainingError();
        SPARSEAGG_ASSIGN_OR_RETURN(const CreateTasksArgs args,
                                   FromProto(call.caller.tenant, create));
        const auto acting = authoriser_.ActingFor(call.caller);
        SPARSEAGG_ASSIGN_OR_RETURN(const auto groups, tasks_.Create(args));
        v1::CreateTasksResponse created;
        for (const TaskGroupSnapshot& group : groups) *created.add_groups() = ToProto(group);
        *answer = ToBytes(created);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* TaskService::GetTask(grpc::CallbackServerContext* context,
                                               const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response) noexcept {
  return Serve<v1::GetTaskRequest>(
      *context, {"GetTask"}, request, response,
      [this](const AuthorisedCall& call, const v1::GetTaskRequest& get,
             grpc::ByteBuffer* answer) -> absl::Status {
        SPARSEAGG_ASSIGN_OR_RETURN(
            const TaskSnapshot task,
            tasks_.Get(call.caller.tenant, ViewerOf(call.caller), get.name()));
        *answer = ToBytes(ToProto(task));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* TaskService::ListTasks(grpc::CallbackServerContext* context,
                                                 const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* response) noexcept {
  return Serve<v1::ListTasksRequest>(
      *context, {"ListTasks"}, request, response,
      [this](const AuthorisedCall& call, const v1::ListTasksRequest& list,
             grpc::ByteBuffer* answer) -> absl::Status {
        SPARSEAGG_ASSIGN_OR_RETURN(const ListTasksArgs args, FromProto(list));
        SPARSEAGG_ASSIGN_OR_RETURN(const TaskPage page,
                                   tasks_.List(call.caller.tenant, ViewerOf(call.caller), args));
        *answer = ToBytes(ToProto(page));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* TaskService::CancelTasks(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) noexcept {
  return Serve<v1::CancelTasksRequest>(
      *context, {"CancelTasks"}, request, response,
      [this](const AuthorisedCall& call, const v1::CancelTasksRequest& cancel,
             grpc::ByteBuffer* answer) -> absl::Status {
        const auto acting = authoriser_.ActingFor(call.caller);
        SPARSEAGG_ASSIGN_OR_RETURN(
            const uint64_t cancelled,
            tasks_.Cancel(call.caller.tenant, {cancel.names().begin(), cancel.names().end()}));
        v1::CancelTasksResponse done;
        done.set_cancelled(cancelled);
        *answer = ToBytes(done);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* TaskService::WaitTasks(grpc::CallbackServerContext* context,
                                                 const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* response) noexcept {
  auto call = authoriser_.AuthoriseWait(*context, "WaitTasks");
  if (!call.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, call.status());
  const auto wait = ReadSmall<v1::WaitTasksRequest>(*request);
  if (!wait.ok()) return Refuse<grpc::ServerUnaryReactor>(calls_, wait.status());
  return StartWaitTasks(*std::move(call), tasks_, drain_list_, calls_, *wait, response);
}

grpc::ServerUnaryReactor* TaskService::AcquireTasks(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) noexcept {
  return Serve<v1::AcquireTasksRequest>(
      *context, {"AcquireTasks"}, request, response,
      [this](const AuthorisedCall& call, const v1::AcquireTasksRequest& acquire,
             grpc::ByteBuffer* answer) -> absl::Status {
        if (draining_) return DrainingError();
        SPARSEAGG_RETURN_IF_ERROR(call.CheckWorker(acquire.worker()));
        SPARSEAGG_ASSIGN_OR_RETURN(const AcquiredTasks acquired,
                                   tasks_.Acquire(call.caller.tenant, FromProto(acquire)));
        *answer = ToBytes(ToProto(acquired));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* TaskService::RenewTasks(grpc::CallbackServerContext* context,
                                                  const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) noexcept {
  return Serve<v1::RenewTasksRequest>(
      *context, {"RenewTasks", Share::kAll}, request, response,
      [this](const AuthorisedCall& call, const v1::RenewTasksRequest& renew,
             grpc::ByteBuffer* answer) -> absl::Status {
        std::vector<TaskLeaseKey> leases;
        for (const v1::TaskLease& lease : renew.leases()) leases.push_back(FromProto(lease));
        SPARSEAGG_ASSIGN_OR_RETURN(const auto renewed,
                                   tasks_.Renew(call.caller.tenant, ViewerOf(call.caller), leases));
        v1::RenewTasksResponse done;
        for (size_t i = 0; i < leases.size(); ++i) {
          v1::RenewedLease& lease = *done.add_leases();
          if (renewed[i].ok()) {
            *lease.mutable_lease() = ToProto(leases[i].task, *renewed[i]);
            continue;
          }
          lease.mutable_lease()->set_task(leases[i].task);
          lease.mutable_lease()->set_token(leases[i].token);
          *lease.mutable_error() = ToProto(renewed[i].status());
        }
        *answer = ToBytes(done);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* TaskService::CompleteTask(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) noexcept {
  return Serve<v1::CompleteTaskRequest>(
      *context, {"CompleteTask", Share::kAll}, request, response,
      [this](const AuthorisedCall& call, const v1::CompleteTaskRequest& complete,
             grpc::ByteBuffer* answer) -> absl::Status {
        SPARSEAGG_ASSIGN_OR_RETURN(
            const TaskSnapshot task,
            tasks_.Complete(call.caller.tenant, ViewerOf(call.caller), FromProto(complete.lease()),
                            FromProto(complete.receipt())));
        *answer = ToBytes(ToProto(task));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* TaskService::FailTask(grpc::CallbackServerContext* context,
                                                const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) noexcept {
  return Serve<v1::FailTaskRequest>(
      *context, {"FailTask", Share::kAll}, request, response,
      [this](const AuthorisedCall& call, const v1::FailTaskRequest& fail,
             grpc::ByteBuffer* answer) -> absl::Status {
        SPARSEAGG_ASSIGN_OR_RETURN(
            const TaskSnapshot task,
            tasks_.Fail(call.caller.tenant, ViewerOf(call.caller), FromProto(fail.lease()),
                        {.reason = fail.reason(),
                         .retryable = fail.retryable(),
                         .handed_back = fail.handed_back()}));
        *answer = ToBytes(ToProto(task));
        return absl::OkStatus();
      });
}

}  // namespace sparseagg
