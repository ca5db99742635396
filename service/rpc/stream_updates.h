// StreamUpdates: many updates over one stream, whole or in chunks; one Receipt or Error for each.
//
// Messages are handled one after the other, in order. Answers wait in a queue of bounded length
// while the reader of the other side is slow; when it is full, reading pauses, and gRPC's flow
// control slows the sender down. Finishing a chunked update runs on a background thread; the stream
// reads on afterwards.
#ifndef SPARSEAGG_SERVICE_RPC_STREAM_UPDATES_H_
#define SPARSEAGG_SERVICE_RPC_STREAM_UPDATES_H_

#include <grpcpp/support/server_callback.h>

#include "service/engine/engine.h"
#include "service/rpc/background.h"
#include "service/rpc/call_counter.h"
#include "service/rpc/drain_list.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// The reactor frees itself. The arguments must outlive the call.
grpc::ServerBidiReactor<v1::StreamUpdatesRequest, v1::StreamUpdatesResponse>* StartStreamUpdates(
    Engine& engine, Background& background, DrainList& drain_list, CallCounter& calls);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_STREAM_UPDATES_H_
