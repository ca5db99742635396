// When the answers of a stream are sent that could be sent together: while whole updates follow one
// another closely their answers wait for each other, for a moment or until there are many. How many
// is learned: one more each time, and half when the sender is found to wait for its answers.
// Whoever sends one update and waits for its receipt has it at once.
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

  // A message came so long after the server was ready for it.
  void OnMessage(std::chrono::nanoseconds waited) { close_ = waited < kSoon; }

  // The next answers are not to wait.
  void SendNow() { now_ = true; }

  // Whether so many answers wait for more of them; if so, ask again within kTime, or call
  // TimeIsUp().
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

  // They have waited for kTime while the server waited for a message, so long.
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
  std::optional<Time> since_;  // answers wait
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_STREAM_ANSWER_HOLD_H_
