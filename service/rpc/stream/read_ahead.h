// Small messages of a stream that are read while one before them is handled: a thread that takes
// one message at a time sleeps and is woken for each, which took a quarter of a server's time for
// updates of 1 KB. Several are taken at a time, so that those who read and those who handle seldom
// meet. Large ones are read when the one before has been handled, as their memory is theirs alone.
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

  // A message came; takes it from `message`.
  void Push(grpc::ByteBuffer& message) {
    bytes_ += message.Length();
    messages_.emplace_back().Swap(&message);
    full_ |= messages_.size() >= kMessagesMax || bytes_ >= kBytesMax;
  }

  // The first ones, in order, which are then handled; those before them have been.
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

  // Those that were taken have been handled.
  void Handled() {
    bytes_ -= std::exchange(handled_bytes_, 0);
    // Not before half of the room is free, so that the reading thread has something to do.
    if (messages_.size() <= kMessagesMax / 2 && bytes_ <= kBytesMax / 2) full_ = false;
  }

  void Clear() {
    messages_.clear();
    bytes_ = handled_bytes_;
  }

  // Whether to read another one, with those that wait and those that are being handled.
  bool has_room() const { return !full_; }

 private:
  std::deque<grpc::ByteBuffer> messages_;
  uint64_t bytes_ = 0;  // of messages_ and of those that are being handled
  uint64_t handled_bytes_ = 0;
  bool full_ = false;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_STREAM_READ_AHEAD_H_
