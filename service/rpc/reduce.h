// Reduce: the stateless operator. Reads the specification and the updates, then answers with the
// aggregate in the form of GetAggregate. Any error ends the call and frees all of its state; a
// client that keeps the server waiting too long ends it, too (stream_pace.h, unread_limit.h).
#ifndef SPARSEAGG_SERVICE_RPC_REDUCE_H_
#define SPARSEAGG_SERVICE_RPC_REDUCE_H_

#include <grpcpp/support/server_callback.h>

#include "service/engine/engine.h"
#include "service/rpc/background.h"
#include "service/rpc/call_counter.h"
#include "service/rpc/drain_list.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// The reactor frees itself. The arguments must outlive the call.
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartReduce(
    grpc::CallbackServerContext& context, Engine& engine, Background& background,
    DrainList& drain_list, CallCounter& calls);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_REDUCE_H_
