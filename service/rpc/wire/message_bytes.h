// The bytes of one message of a raw method, received or to be sent.
#ifndef SPARSEAGG_SERVICE_RPC_WIRE_MESSAGE_BYTES_H_
#define SPARSEAGG_SERVICE_RPC_WIRE_MESSAGE_BYTES_H_

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <string_view>
#include <vector>

#include "sparse/encoding.h"

namespace sparseagg {

// A received message, in the pieces in which gRPC read it. It keeps gRPC's read buffers alive,
// which may be much larger than the message, so it must not live longer than it takes to count an
// update. Moving it keeps views of the bytes valid.
class MessageBytes {
 public:
  MessageBytes() = default;
  explicit MessageBytes(const grpc::ByteBuffer& message) {
    if (!message.Valid() || !message.Dump(&slices_).ok()) slices_.clear();
    pieces_.reserve(slices_.size());
    for (const grpc::Slice& slice : slices_) {
      pieces_.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
  }
  MessageBytes(MessageBytes&&) = default;
  MessageBytes& operator=(MessageBytes&&) = default;
  MessageBytes(const MessageBytes&) = delete;
  MessageBytes& operator=(const MessageBytes&) = delete;

  ByteChain chain() const { return pieces_; }

 private:
  std::vector<grpc::Slice> slices_;  // a small slice holds its bytes inline
  std::vector<std::string_view> pieces_;
};

inline grpc::ByteBuffer ToBytes(const google::protobuf::MessageLite& message) {
  const size_t size = message.ByteSizeLong();
  const grpc::Slice slice(size);
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WIRE_MESSAGE_BYTES_H_
