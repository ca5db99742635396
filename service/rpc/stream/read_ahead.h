// The queue of messages of a stream that were read while earlier ones are being handled. Waking a
// thread for every message took a quarter of a server's time with updates of 1 KB. So the handling
// thread takes several at a time, and the two threads seldom contend. A large message is read only
// after the one before it has been handled, because the queue is bounded in bytes.
#ifndef SPARSEAGG_SERVICE_RPC_STREAM_READ_AHEAD_H_
#define SPARSEAGG_SERVICE_RPC_STREAM_READ_AHEAD_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace sparseagg {

// Thread-compatible.
class ReadAhead {
 public:
  static constexpr size_t kMessagesMax = 64;
  static constexpr uint64_t kBytesMax = uint64_t{256} << 10;
  static constexpr size_t kTakenMax = kMessagesMax / 4;

  bool empty() const { return messages_.empty(); }

  // Queues a message; takes its content out of `message`.
  void Push(grpc::ByteBuffer& message) {
    bytes_ += message.Length();
    messages_.emplace_back().Swap(&message);
    full_ |= messages_.size() >= kMessagesMax || bytes_ >= kBytesMax;
  }

  // Removes and returns the first messages, in order, which the caller then handles. The ones that
  // were taken before count as handled.
  std::deque<grpc::ByteBuffer> Take() {
    Handled();
    std::deque<grpc::ByteBuffer> taken;
    while (!messages_.empty() && taken.size() < kTakenMax) {
      taken.emplace_back().Swap(&messages_.front());
      messages_.pop_front();
      handled_bytes_ += taken.back().Length();
    }
    return taken;
  }

  uint64_t handled_bytes() const { return handled_bytes_; }

  // The messages that were taken have been handled.
  void Handled() {
    bytes_ -= std::exchange(handled_bytes_, 0);
    // Reading starts again only when half of the room is free, so that it reads several messages at
    // once.
    if (messages_.size() <= kMessagesMax / 2 && bytes_ <= kBytesMax / 2) full_ = false;
  }

  void Clear() {
    messages_.clear();
    bytes_ = handled_bytes_;
  }

  // Whether another message should be read; counts those that are being handled.
  bool has_room() const { return !full_; }

 private:
  std::deque<grpc::ByteBuffer> messages_;
  uint64_t bytes_ = 0;  // of messages_ and of those that are being handled
  uint64_t handled_bytes_ = 0;
  bool full_ = false;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_STREAM_READ_AHEAD_H_
