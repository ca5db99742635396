// StreamUpdates: many updates over one stream, whole or in chunks; one Receipt or Error for each.
//
// Messages are read in order. What waits for a disk and what takes long runs on other threads while
// the stream reads on, up to a number of updates and of their bytes; so receipts come in any order.
// Answers wait in a queue of bounded length while the reader of the other side is slow; when it is
// full, reading pauses, and gRPC's flow control slows the sender down. A chunk that is written to
// disk is there before the next message is read. A client that keeps the stream waiting too long
// (stream_pace.h) loses the updates that are under way in chunks, or the stream.
#ifndef SPARSEAGG_SERVICE_RPC_STREAM_STREAM_UPDATES_H_
#define SPARSEAGG_SERVICE_RPC_STREAM_STREAM_UPDATES_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "service/rpc/background.h"
#include "service/rpc/call_counter.h"
#include "service/rpc/drain_list.h"
#include "service/rpc/gate.h"

namespace sparseagg {

// The reactor frees itself. The other arguments must outlive the call. Chunked updates are finished
// in `background`, updates of durable rounds counted in `commits`.
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartStreamUpdates(
    grpc::CallbackServerContext& context, AdmittedCall admitted, Background& background,
    Background& commits, DrainList& drain_list, CallCounter& calls);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_STREAM_STREAM_UPDATES_H_
