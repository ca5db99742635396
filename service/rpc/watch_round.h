// WatchRound: a stream of the round's states. Changes that come while a message is being written,
// or sooner than the caller wants to hear of them, are coalesced: what is sent is always the newest
// state, and a slow reader costs the message that it does not read, for as long as unread_limit.h
// says. The final state is never held back.
#ifndef SPARSEAGG_SERVICE_RPC_WATCH_ROUND_H_
#define SPARSEAGG_SERVICE_RPC_WATCH_ROUND_H_

#include <grpcpp/support/server_callback.h>

#include "service/rpc/call_counter.h"
#include "service/rpc/drain_list.h"
#include "service/rpc/gate.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// The reactor frees itself. `context` and the engine must outlive the call.
grpc::ServerWriteReactor<grpc::ByteBuffer>* StartWatchRound(grpc::CallbackServerContext& context,
                                                            const AdmittedCall& call,
                                                            DrainList& drain_list,
                                                            CallCounter& calls,
                                                            const v1::WatchRoundRequest& request);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WATCH_ROUND_H_
