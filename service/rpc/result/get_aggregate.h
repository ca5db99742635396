// GetAggregate: the result of a published round as a stream. Each chunk is made when the one before
// it has been sent; a client that does not read for too long ends the call (unread_limit.h).
// ReadResult: a part of the same bytes as the answer of a unary call.
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

// Whether opening the result may take longer than a gRPC reaction should.
bool TakesLong(Engine& engine, const v1::GetAggregateRequest& request);

// Makes the answer of ReadResult. Errors are those of Engine::Result() and ResultWriter.
absl::Status ReadResult(Engine& engine, const v1::ReadResultRequest& request,
                        grpc::ByteBuffer& response);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_RESULT_GET_AGGREGATE_H_
