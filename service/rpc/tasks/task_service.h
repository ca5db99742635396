// The TaskService of sparseagg.v1 on gRPC's callback API: it translates requests for Tasks
// (service/tasks/) and its answers. Every method is raw, as in aggregation_service.h.
#ifndef SPARSEAGG_SERVICE_RPC_TASKS_TASK_SERVICE_H_
#define SPARSEAGG_SERVICE_RPC_TASKS_TASK_SERVICE_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "service/rpc/background.h"
#include "service/rpc/call_authoriser.h"
#include "service/rpc/call_counter.h"
#include "service/rpc/drain_list.h"
#include "service/rpc/tasks/waiting_calls.h"
#include "service/rpc/ticker.h"
#include "service/tasks/tasks.h"
#include "sparseagg/v1/tasks.grpc.pb.h"

namespace sparseagg {

inline constexpr char kTaskServiceName[] = "sparseagg.v1.TaskService";

using TaskApi = v1::TaskService;
using OwnerMethods =
    TaskApi::WithRawCallbackMethod_CreateTasks<TaskApi::WithRawCallbackMethod_GetTask<
        TaskApi::WithRawCallbackMethod_ListTasks<TaskApi::WithRawCallbackMethod_CancelTasks<
            TaskApi::WithRawCallbackMethod_WaitTasks<TaskApi::Service>>>>>;
using TaskServiceBase = TaskApi::WithRawCallbackMethod_AcquireTasks<
    TaskApi::WithRawCallbackMethod_RenewTasks<TaskApi::WithRawCallbackMethod_CompleteTask<
        TaskApi::WithRawCallbackMethod_FailTask<OwnerMethods>>>>;

// Thread-safe. Must outlive the server that it is registered with.
class TaskService : public TaskServiceBase {
 public:
  // `authoriser` and `tasks` must outlive the service.
  TaskService(CallAuthoriser& authoriser, Tasks& tasks);

  // Hands out no more tasks, and ends the calls that wait. To be called once.
  void Drain();
  // Returns when no call is in progress, at the latest at `deadline`.
  void WaitUntilIdle(std::chrono::system_clock::time_point deadline) {
    calls_.WaitUntilIdle(deadline);
  }

  grpc::ServerUnaryReactor* CreateTasks(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) noexcept override;
  grpc::ServerUnaryReactor* GetTask(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) noexcept override;
  grpc::ServerUnaryReactor* ListTasks(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) noexcept override;
  grpc::ServerUnaryReactor* CancelTasks(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) noexcept override;
  grpc::ServerUnaryReactor* WaitTasks(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) noexcept override;
  grpc::ServerUnaryReactor* AcquireTasks(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) noexcept override;
  grpc::ServerUnaryReactor* RenewTasks(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) noexcept override;
  grpc::ServerUnaryReactor* CompleteTask(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) noexcept override;
  grpc::ServerUnaryReactor* FailTask(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) noexcept override;

 private:
  struct Method {
    const char* rpc = "";
    WaitingCalls::Share share = WaitingCalls::Share::kMost;
  };
  // Authorises the call, parses the request and runs `handle(call, request, response)`, which
  // returns a Status, on a thread that may wait for the disk.
  template <typename Request, typename Handle>
  grpc::ServerUnaryReactor* Serve(grpc::CallbackServerContext& context, const Method& method,
                                  const grpc::ByteBuffer* request, grpc::ByteBuffer* response,
                                  Handle handle);

  CallAuthoriser& authoriser_;
  Tasks& tasks_;
  std::atomic<bool> draining_ = false;
  CallCounter calls_;
  DrainList drain_list_;
  WaitingCalls waiting_;
  Background commits_;
  Ticker ticks_;  // last: uses the others
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_TASKS_TASK_SERVICE_H_
