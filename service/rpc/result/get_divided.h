// GetAggregate and ReadResult of a divided result, whose bytes the root relays from the owners.
#ifndef SPARSEAGG_SERVICE_RPC_RESULT_GET_DIVIDED_H_
#define SPARSEAGG_SERVICE_RPC_RESULT_GET_DIVIDED_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>

#include "service/engine/engine.h"
#include "service/rpc/call_counter.h"
#include "service/rpc/drain_list.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// Returns the result of the round if it is divided; null otherwise, also if there is none.
std::shared_ptr<const PublishedResult> FindDivided(Engine& engine, const std::string& round);

// As StartGetAggregate(). Holds two chunks at a time.
grpc::ServerWriteReactor<grpc::ByteBuffer>* StartGetDivided(
    grpc::CallbackServerContext& context, Engine& engine, DrainList& drain_list, CallCounter& calls,
    std::shared_ptr<const PublishedResult> result, const v1::GetAggregateRequest& request);

// As ReadResult().
grpc::ServerUnaryReactor* StartReadDivided(Engine& engine, CallCounter& calls,
                                           std::shared_ptr<const PublishedResult> result,
                                           const v1::ReadResultRequest& request,
                                           grpc::ByteBuffer* response);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_RESULT_GET_DIVIDED_H_
