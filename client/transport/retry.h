// When a failed call is repeated, and how long to wait before.
#ifndef SPARSEAGG_CLIENT_TRANSPORT_RETRY_H_
#define SPARSEAGG_CLIENT_TRANSPORT_RETRY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "client/client.h"

namespace sparseagg::client {

// Whether the same call may succeed later: the connection failed of something that may pass, or
// the server said so.
bool IsRetryable(const absl::Status& status);

// In ms; 0: without an end.
struct TimeLimits {
  uint64_t call_ms = 0;  // of a call with all its attempts
  uint64_t away_ms = 0;  // without a server, from the first failure since the last progress on
};

// The attempts of one call. While there is no connection they may be counted; while the server
// answers that it is busy (RetryInfo) they go on for a time, as often as it says: a loaded server
// takes longer than a few hints of 200 ms. Thread-compatible.
class RetryLoop {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit RetryLoop(
      const ClientOptions& options, TimeLimits limits = {},
      std::function<Time()> now = [] { return std::chrono::steady_clock::now(); })
      : options_(options), limits_(limits), now_(std::move(now)), start_(now_()) {}

  // After a failed attempt: waits and answers true when there is to be another.
  bool Again(const absl::Status& status);
  // The failed attempt got something done: count and time without a server start anew.
  void MadeProgress();
  // What the next attempt may take, at least 1; 0: as long as it likes.
  uint64_t attempt_ms() const;
  // An attempt failed before this one.
  bool repeated() const { return repeated_; }

 private:
  // Whether RetryPolicy has another attempt after this failure and `delay_ms`.
  bool Allows(const absl::Status& status, uint64_t delay_ms);
  // Until the limits; nullopt: there is none.
  std::optional<uint64_t> LeftMs(const absl::Status& status) const;
  uint64_t MsSince(Time time) const;

  const ClientOptions& options_;
  const TimeLimits limits_;
  const std::function<Time()> now_;
  const Time start_;
  uint32_t failures_ = 0;           // since the last progress
  uint32_t unavailable_ = 0;        // of them
  std::optional<Time> away_since_;  // there is no server
  std::optional<Time> busy_since_;  // the server answers, and that it is busy
  bool repeated_ = false;
};

// Milliseconds before attempt number `attempt` + 1 (attempt from 1), `random` in [0, 1).
uint64_t RetryDelayMs(const RetryPolicy& policy, uint32_t attempt, uint64_t hint_ms, double random);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_RETRY_H_
