// Unary calls whose answer is computed in one piece: on the thread of gRPC, or on a thread that may
// wait for the disk.
#ifndef SPARSEAGG_SERVICE_RPC_UNARY_CALL_H_
#define SPARSEAGG_SERVICE_RPC_UNARY_CALL_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "service/rpc/background.h"
#include "service/rpc/call_counter.h"
#include "service/rpc/wire/message_bytes.h"
#include "service/rpc/wire/received_update.h"
#include "service/rpc/wire/status_table.h"

namespace sparseagg {

// A call whose response or error is ready when its handler returns.
template <typename Reactor>
class ShortCall : public Reactor {
 public:
  explicit ShortCall(CallCounter& calls) : call_entry_(calls) {}
  void OnDone() noexcept override { delete this; }

 private:
  CallCounter::Entry call_entry_;
};

using UnaryCall = ShortCall<grpc::ServerUnaryReactor>;

template <typename Reactor>
Reactor* Refuse(CallCounter& calls, const absl::Status& why) {
  auto* call = new ShortCall<Reactor>(calls);
  call->Finish(ToGrpcStatus(why));
  return call;
}

// Runs `handler`, which returns a Status, on this thread.
template <typename Handler>
grpc::ServerUnaryReactor* Run(CallCounter& calls, Handler handler) {
  auto* call = new UnaryCall(calls);
  call->Finish(ToGrpcStatus(handler()));
  return call;
}

// The same on a thread of `background`. `handler` must not refer to the caller's variables.
template <typename Handler>
grpc::ServerUnaryReactor* RunIn(Background& background, CallCounter& calls, Handler handler) {
  auto* call = new UnaryCall(calls);
  background.Run([call, handler = std::move(handler)] { call->Finish(ToGrpcStatus(handler())); });
  return call;
}

// Parses a request that consists of names, numbers and times.
template <typename Request>
absl::StatusOr<Request> ReadSmall(const grpc::ByteBuffer& message) {
  Request request;
  SPARSEAGG_RETURN_IF_ERROR(
      ReadRequest(MessageBytes(message).chain(), kSmallRequestBytesMax, &request));
  return request;
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_UNARY_CALL_H_
