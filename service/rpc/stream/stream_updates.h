// StreamUpdates: many updates over one stream, whole or in chunks; each gets one Receipt or Error.
//
// Messages are read in order. Work that waits for the disk or takes long runs on other threads
// while the stream keeps reading, up to a number of updates and of their bytes; so receipts may
// come in any order. While the client reads slowly, answers wait in a bounded queue; when it is
// full, reading pauses, and gRPC's flow control slows the client down. A chunk that goes to the
// disk is written before the next message is handled. A client that is too slow (stream_pace.h)
// loses its unfinished chunked updates, or the stream.
#ifndef SPARSEAGG_SERVICE_RPC_STREAM_STREAM_UPDATES_H_
#define SPARSEAGG_SERVICE_RPC_STREAM_STREAM_UPDATES_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "service/rpc/background.h"
#include "service/rpc/call_authoriser.h"
#include "service/rpc/call_counter.h"
#include "service/rpc/drain_list.h"

namespace sparseagg {

// The reactor frees itself. The other arguments must outlive the call. `background` finishes
// chunked updates, `commits` submits updates of durable rounds.
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartStreamUpdates(
    grpc::CallbackServerContext& context, AuthorisedCall authorised, Background& background,
    Background& commits, DrainList& drain_list, CallCounter& calls);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_STREAM_STREAM_UPDATES_H_
