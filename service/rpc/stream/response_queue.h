// The queue of answers that a stream has to send, in order: one per message, or many for a client
// that accepts that (StreamUpdatesResponse.more).
#ifndef SPARSEAGG_SERVICE_RPC_STREAM_RESPONSE_QUEUE_H_
#define SPARSEAGG_SERVICE_RPC_STREAM_RESPONSE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "service/rpc/stream/response_coalescer.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// Thread-compatible.
class ResponseQueue {
 public:
  static constexpr int kBatchMax = 1000;  // answers in a message, about 200 bytes each

  // The bounds of the queue while the client reads slowly. An answer has at most 2.1 KB; a small
  // one takes four times its bytes in memory.
  static constexpr size_t kAnswersMax = 4096;
  static constexpr size_t kBytesMax = size_t{256} << 10;

  // Whether an answer may wait to be sent with later ones.
  enum When { kAtOnce, kMayWait };

  bool empty() const { return answers_.empty(); }
  size_t size() const { return answers_.size(); }
  // Whether the queue has reached a bound, and the stream should stop reading.
  bool full() const { return answers_.size() >= kAnswersMax || bytes_ >= kBytesMax; }
  ResponseCoalescer& coalescer() { return coalescer_; }

  // The client accepts messages with more than one answer.
  void EnableBatches() { batches_ = true; }

  void Push(v1::StreamUpdatesResponse answer, When when) {
    const size_t bytes = answer.ByteSizeLong();
    bytes_ += bytes;
    answers_.push_back({std::move(answer), bytes});
    if (when == kAtOnce) coalescer_.SendNow();
  }

  // Whether the queued answers should wait for more (ResponseCoalescer).
  bool ShouldWait(ResponseCoalescer::Time now) {
    return batches_ && coalescer_.ShouldWait(answers_.size(), now);
  }

  // Removes and returns the next message. REQUIRES: !empty().
  v1::StreamUpdatesResponse Take() {
    ++taken_;
    v1::StreamUpdatesResponse taken = TakeFront();
    while (batches_ && !answers_.empty() && taken.more_size() + 1 < kBatchMax) {
      *taken.add_more() = TakeFront();
    }
    return taken;
  }

  // Whether gRPC may buffer the message that was taken last (WriteOptions::set_buffer_hint),
  // because another follows. Never true for the first message of a call: the call's headers are
  // sent with it. gRPC (1.51) reports that write as done only when the headers are sent, and does
  // not send them with a message that it may buffer; so the next write would never start, and the
  // call would hang.
  bool MayBufferTaken() const { return taken_ > 1 && !answers_.empty(); }

  void Clear() {
    answers_.clear();
    bytes_ = 0;
  }

 private:
  struct Waiting {
    v1::StreamUpdatesResponse answer;
    size_t bytes;
  };

  v1::StreamUpdatesResponse TakeFront() {
    v1::StreamUpdatesResponse answer = std::move(answers_.front().answer);
    bytes_ -= answers_.front().bytes;
    answers_.pop_front();
    return answer;
  }

  std::deque<Waiting> answers_;
  size_t bytes_ = 0;  // of answers_
  bool batches_ = false;
  uint64_t taken_ = 0;
  ResponseCoalescer coalescer_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_STREAM_RESPONSE_QUEUE_H_
