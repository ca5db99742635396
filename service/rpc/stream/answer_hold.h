// Decides when the answers of a stream are sent in one message. While updates arrive closely behind
// one another, their answers wait for each other, for at most kMaxDelay or until there are as many
// as the batch limit. The limit adapts: +1 after each full batch, halved when the client is found
// blocked (AIMD). A client that sends one update and waits for its receipt gets it at once.
#ifndef SPARSEAGG_SERVICE_RPC_STREAM_ANSWER_HOLD_H_
#define SPARSEAGG_SERVICE_RPC_STREAM_ANSWER_HOLD_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

namespace sparseagg {

// Thread-compatible.
class AnswerHold {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::milliseconds kTime{1};

  // Called for each message; `waited` is the time that the server waited for it.
  void OnMessage(std::chrono::nanoseconds waited) { close_ = waited < kSoon; }

  // The next call of ShouldWait() returns false.
  void SendNow() { now_ = true; }

  // Whether the `answers` that are queued should wait for more. If true, the caller calls again
  // within kMaxDelay, or calls OnMaxDelay().
  bool Holds(size_t answers, Time now) {
    const Time since = since_.value_or(now);
    since_.reset();
    if (std::exchange(now_, false) || !close_) return false;
    if (answers >= most_) {
      most_ = std::min(most_ + 1, kMost);
      return false;
    }
    if (now - since >= kTime) return false;
    since_ = since;
    return true;
  }

  // Called when `answers` have waited for kMaxDelay and the server waited for a message for
  // `waiting`.
  void TimeIsUp(size_t answers, std::chrono::nanoseconds waiting) {
    if (waiting > kSoon) most_ = std::max<size_t>(answers / 2, 1);
    SendNow();
  }

 private:
  static constexpr std::chrono::microseconds kSoon{100};
  static constexpr size_t kAtFirst = 8;
  static constexpr size_t kMost = 128;

  bool close_ = false;
  bool now_ = false;
  size_t most_ = kAtFirst;
  std::optional<Time> since_;  // when the queued answers began to wait
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_STREAM_ANSWER_HOLD_H_
