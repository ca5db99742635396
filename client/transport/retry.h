// Decides when a failed call is repeated, and how long to wait before.
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

// Whether the same call may succeed later: the connection failed for a reason that may pass, or the
// error has a retry hint.
bool IsRetryable(const absl::Status& status);

// In ms; 0: no limit.
struct TimeLimits {
  uint64_t call_ms = 0;  // for a call with all its attempts
  uint64_t away_ms = 0;  // without a server, from the first failure after the last progress
};

// The attempts of one call. Attempts without a connection may be limited in number. Attempts that a
// busy server answers with RetryInfo are limited in time only, because a loaded server needs longer
// than a few hints of 200 ms. Thread-compatible.
class RetryLoop {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit RetryLoop(
      const ClientOptions& options, TimeLimits limits = {},
      std::function<Time()> now = [] { return std::chrono::steady_clock::now(); })
      : options_(options), limits_(limits), now_(std::move(now)), start_(now_()) {}

  // Called after a failed attempt. If there is to be another one, waits and returns true.
  bool WaitToRetry(const absl::Status& status);
  // The failed attempt made progress: restarts the count and the time without a server.
  void MadeProgress();
  // The time limit of the next attempt, at least 1; 0: no limit.
  uint64_t attempt_ms() const;
  // Returns whether an attempt has failed before.
  bool repeated() const { return repeated_; }

 private:
  // Returns whether RetryPolicy allows another attempt after this failure and `delay_ms`.
  bool Allows(const absl::Status& status, uint64_t delay_ms);
  // The time until the first limit; nullopt: there is none.
  std::optional<uint64_t> LeftMs(const absl::Status& status) const;
  uint64_t MsSince(Time time) const;

  const ClientOptions& options_;
  const TimeLimits limits_;
  const std::function<Time()> now_;
  const Time start_;
  uint32_t failures_ = 0;           // since the last progress
  uint32_t unavailable_ = 0;        // without a server, of failures_
  std::optional<Time> away_since_;  // when attempts began to find no server
  std::optional<Time> busy_since_;  // when the server began to answer that it is busy
  bool repeated_ = false;
};

// The milliseconds to wait after attempt number `attempt`, counted from 1. `random` is in [0, 1).
uint64_t RetryDelayMs(const RetryPolicy& policy, uint32_t attempt, uint64_t hint_ms, double random);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_RETRY_H_
