// The answers of a stream that are to be sent, in order: one a message, or many to a caller that
// takes them (StreamUpdatesResponse.more).
#ifndef SPARSEAGG_SERVICE_RPC_STREAM_ANSWER_QUEUE_H_
#define SPARSEAGG_SERVICE_RPC_STREAM_ANSWER_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "service/rpc/stream/answer_hold.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// Thread-compatible.
class AnswerQueue {
 public:
  static constexpr int kTogetherMax = 1000;  // about 200 bytes each

  // What a stream may hold back for a reader that is slow. An answer has 2.1 KB at most; a small
  // one takes four times its bytes.
  static constexpr size_t kAnswersMax = 4096;
  static constexpr size_t kBytesMax = size_t{256} << 10;

  // Whether an answer may go with those that follow.
  enum When { kAtOnce, kMayWait };

  bool empty() const { return answers_.empty(); }
  size_t size() const { return answers_.size(); }
  // So many wait that no more should come.
  bool full() const { return answers_.size() >= kAnswersMax || bytes_ >= kBytesMax; }
  AnswerHold& hold() { return hold_; }

  // The caller reads more than one of a message.
  void SendTogether() { together_ = true; }

  void Push(v1::StreamUpdatesResponse answer, When when) {
    const size_t bytes = answer.ByteSizeLong();
    bytes_ += bytes;
    answers_.push_back({std::move(answer), bytes});
    if (when == kAtOnce) hold_.SendNow();
  }

  // Whether those that are here wait for more: AnswerHold.
  bool Holds(AnswerHold::Time now) { return together_ && hold_.Holds(answers_.size(), now); }

  // The next message. REQUIRES: not empty().
  v1::StreamUpdatesResponse Take() {
    ++taken_;
    v1::StreamUpdatesResponse taken = TakeFront();
    while (together_ && !answers_.empty() && taken.more_size() + 1 < kTogetherMax) {
      *taken.add_more() = TakeFront();
    }
    return taken;
  }

  // Whether gRPC may keep the message that was taken last, to send it with the next, which is here.
  // Never a call's first: with that go the call's headers. gRPC (1.51) says that a message is
  // written when the headers with it are, and sends nothing for a message that it may keep; without
  // that word there is no next one, and the call stands still.
  bool MayKeepTaken() const { return taken_ > 1 && !answers_.empty(); }

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
  bool together_ = false;
  uint64_t taken_ = 0;
  AnswerHold hold_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_STREAM_ANSWER_QUEUE_H_
