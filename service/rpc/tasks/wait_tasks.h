// WaitTasks: a long poll that holds no thread while it waits.
#ifndef SPARSEAGG_SERVICE_RPC_TASKS_WAIT_TASKS_H_
#define SPARSEAGG_SERVICE_RPC_TASKS_WAIT_TASKS_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "service/rpc/call_authoriser.h"
#include "service/rpc/call_counter.h"
#include "service/rpc/drain_list.h"
#include "service/tasks/tasks.h"
#include "sparseagg/v1/tasks.pb.h"

namespace sparseagg {

// Starts the call. `tasks`, `drain_list` and `calls` must outlive it; gRPC keeps `response`.
grpc::ServerUnaryReactor* StartWaitTasks(AuthorisedCall call, Tasks& tasks, DrainList& drain_list,
                                         CallCounter& calls, const v1::WaitTasksRequest& request,
                                         grpc::ByteBuffer* response);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_TASKS_WAIT_TASKS_H_
