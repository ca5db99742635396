// GetAggregate: the result of a published round as a stream. Each chunk is made when the one before
// it has been sent; a client that does not read for too long ends the call (unread_limit.h).
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

// The reactor frees itself. The call keeps the result alive, even if the round is deleted.
grpc::ServerWriteReactor<grpc::ByteBuffer>* StartGetAggregate(
    grpc::CallbackServerContext& context, Engine& engine, Background& background,
    DrainList& drain_list, CallCounter& calls, v1::GetAggregateRequest request);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_RESULT_GET_AGGREGATE_H_
