// GetPartial: the partial aggregate of a published round as a stream, as GetAggregate sends
// results.
#ifndef SPARSEAGG_SERVICE_RPC_RESULT_GET_PARTIAL_H_
#define SPARSEAGG_SERVICE_RPC_RESULT_GET_PARTIAL_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "service/engine/engine.h"
#include "service/rpc/background.h"
#include "service/rpc/call_counter.h"
#include "service/rpc/drain_list.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// The reactor frees itself. The call keeps the result alive, even if the round is deleted. Errors:
// those of Engine::Result(); FAILED_PRECONDITION (RESULT_NOT_PARTIAL); INVALID_ARGUMENT
// (OFFSET_MISMATCH) for an offset beyond the end; those of CutPartial(), with a range of rows.
grpc::ServerWriteReactor<grpc::ByteBuffer>* StartGetPartial(grpc::CallbackServerContext& context,
                                                            Engine& engine, Background& background,
                                                            DrainList& drain_list,
                                                            CallCounter& calls,
                                                            const v1::GetPartialRequest& request);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_RESULT_GET_PARTIAL_H_
