// GetAggregate: the result of a published round as a stream, each chunk made when the one before it
// has been taken; when nobody takes it for too long, the call ends (unread_limit.h).
#ifndef SPARSEAGG_SERVICE_RPC_RESULT_GET_AGGREGATE_H_
#define SPARSEAGG_SERVICE_RPC_RESULT_GET_AGGREGATE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "service/engine/engine.h"
#include "service/rpc/background.h"
#include "service/rpc/call_counter.h"
#include "service/rpc/drain_list.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// The reactor frees itself. The result stays readable to the end of the call, even if the round is
// deleted.
grpc::ServerWriteReactor<grpc::ByteBuffer>* StartGetAggregate(
    grpc::CallbackServerContext& context, Engine& engine, Background& background,
    DrainList& drain_list, CallCounter& calls, v1::GetAggregateRequest request);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_RESULT_GET_AGGREGATE_H_
