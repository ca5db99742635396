// The answers of a stream that are to be sent, in order: one a message, or many to a caller that
// takes them (StreamUpdatesResponse.more).
#ifndef SPARSEAGG_SERVICE_RPC_ANSWER_QUEUE_H_
#define SPARSEAGG_SERVICE_RPC_ANSWER_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "service/rpc/answer_hold.h"
#include "sparseagg/v1/aggregation.pb.h"

namespace sparseagg {

// Thread-compatible.
class AnswerQueue {
 public:
  static constexpr int kTogetherMax = 1000;  // about 200 bytes each

  // Whether an answer may go with those that follow.
  enum When { kAtOnce, kMayWait };

  bool empty() const { return answers_.empty(); }
  size_t size() const { return answers_.size(); }
  AnswerHold& hold() { return hold_; }

  // The caller reads more than one of a message.
  void SendTogether() { together_ = true; }

  void Push(v1::StreamUpdatesResponse answer, When when) {
    answers_.push_back(std::move(answer));
    if (when == kAtOnce) hold_.SendNow();
  }

  // Whether those that are here wait for more: AnswerHold.
  bool Holds() { return together_ && hold_.Holds(answers_.size()); }

  // The next message. REQUIRES: not empty().
  v1::StreamUpdatesResponse Take() {
    ++taken_;
    v1::StreamUpdatesResponse taken = std::move(answers_.front());
    answers_.pop_front();
    while (together_ && !answers_.empty() && taken.more_size() + 1 < kTogetherMax) {
      *taken.add_more() = std::move(answers_.front());
      answers_.pop_front();
    }
    return taken;
  }

  // Whether gRPC may keep the message that was taken last, to send it with the next, which is here.
  // Never a call's first: with that go the call's headers. gRPC (1.51) says that a message is
  // written when the headers with it are, and sends nothing for a message that it may keep; without
  // that word there is no next one, and the call stands still.
  bool MayKeepTaken() const { return taken_ > 1 && !answers_.empty(); }

  void Clear() { answers_.clear(); }

 private:
  std::deque<v1::StreamUpdatesResponse> answers_;
  bool together_ = false;
  uint64_t taken_ = 0;
  AnswerHold hold_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_ANSWER_QUEUE_H_
