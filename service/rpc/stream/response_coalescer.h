// Decides when the answers of a stream are sent in one message. While updates arrive closely behind
// one another, their answers wait for each other, for at most kMaxDelay or until there are as many
// as the batch limit. The limit adapts: +1 after each full batch, halved when the client is found
// blocked (AIMD). A client that sends one update and waits for its receipt gets it at once.
#ifndef SPARSEAGG_SERVICE_RPC_STREAM_RESPONSE_COALESCER_H_
#define SPARSEAGG_SERVICE_RPC_STREAM_RESPONSE_COALESCER_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

namespace sparseagg {

// Thread-compatible.
class ResponseCoalescer {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::milliseconds kMaxDelay{1};

  // Called for each message; `waited` is the time that the server waited for it.
  void OnMessage(std::chrono::nanoseconds waited) { close_messages_ = waited < kCloseGap; }

  // The next call of ShouldWait() returns false.
  void SendNow() { send_now_ = true; }

  // Whether the `answers` that are queued should wait for more. If true, the caller calls again
  // within kMaxDelay, or calls OnMaxDelay().
  bool ShouldWait(size_t answers, Time now) {
    const Time since = since_.value_or(now);
    since_.reset();
    if (std::exchange(send_now_, false) || !close_messages_) return false;
    if (answers >= batch_limit_) {
      batch_limit_ = std::min(batch_limit_ + 1, kMaxLimit);
      return false;
    }
    if (now - since >= kMaxDelay) return false;
    since_ = since;
    return true;
  }

  // Called when `answers` have waited for kMaxDelay and the server waited for a message for
  // `waiting`.
  void OnMaxDelay(size_t answers, std::chrono::nanoseconds waiting) {
    if (waiting > kCloseGap) batch_limit_ = std::max<size_t>(answers / 2, 1);
    SendNow();
  }

 private:
  static constexpr std::chrono::microseconds kCloseGap{100};
  static constexpr size_t kInitialLimit = 8;
  static constexpr size_t kMaxLimit = 128;

  bool close_messages_ = false;
  bool send_now_ = false;
  size_t batch_limit_ = kInitialLimit;
  std::optional<Time> since_;  // when the queued answers began to wait
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_STREAM_RESPONSE_COALESCER_H_
