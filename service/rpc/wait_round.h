// WaitRound: the long poll for clients without streams. It answers as soon as the round is in a
// final state or newer than the caller's revision, at the latest after the timeout, and holds no
// thread while it waits.
#ifndef SPARSEAGG_SERVICE_RPC_WAIT_ROUND_H_
#define SPARSEAGG_SERVICE_RPC_WAIT_ROUND_H_

#include <grpcpp/support/server_callback.h>

#include "service/rpc/call_authoriser.h"
#include "service/rpc/call_counter.h"
#include "service/rpc/drain_list.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// The reactor frees itself. The engine must outlive the call; `response` belongs to the call.
// Timeouts are cut to 300 s.
grpc::ServerUnaryReactor* StartWaitRound(AuthorisedCall call, DrainList& drain_list,
                                         CallCounter& calls, const v1::WaitRoundRequest& request,
                                         grpc::ByteBuffer* response);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WAIT_ROUND_H_
