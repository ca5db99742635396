// WatchRound: a stream of the round's states. Changes are coalesced while a message is being
// written, and within the interval that the caller asked for: a message always has the newest
// state. A slow reader costs the memory of one message, for the time that unread_limit.h allows.
// The final state is sent without delay.
#ifndef SPARSEAGG_SERVICE_RPC_WATCH_ROUND_H_
#define SPARSEAGG_SERVICE_RPC_WATCH_ROUND_H_

#include <grpcpp/support/server_callback.h>

#include "service/rpc/call_authoriser.h"
#include "service/rpc/call_counter.h"
#include "service/rpc/drain_list.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// The reactor frees itself. `context` and the engine must outlive the call.
grpc::ServerWriteReactor<grpc::ByteBuffer>* StartWatchRound(grpc::CallbackServerContext& context,
                                                            const AuthorisedCall& call,
                                                            DrainList& drain_list,
                                                            CallCounter& calls,
                                                            const v1::WatchRoundRequest& request);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WATCH_ROUND_H_
