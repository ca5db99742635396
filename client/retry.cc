#include "client/retry.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "sparse/status.h"

namespace sparseagg::client {

bool IsRetryable(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || RetryAfterMs(status) > 0;
}

uint64_t RetryDelayMs(const RetryPolicy& policy, uint32_t attempt, uint64_t hint_ms,
                      double random) {
  uint64_t delay_ms = policy.first_delay_ms;
  for (uint32_t i = 1; i < attempt && delay_ms < policy.delay_ms_max; ++i) delay_ms *= 2;
  delay_ms = std::min(delay_ms, policy.delay_ms_max);
  // Clients that failed together do not come back together.
  delay_ms -= static_cast<uint64_t>(static_cast<double>(delay_ms) / 2 * random);
  return std::max(delay_ms, hint_ms);
}

void RetryLoop::MadeProgress() {
  failures_ = 0;
  unavailable_ = 0;
  busy_since_.reset();
}

bool RetryLoop::Allows(const absl::Status& status, uint64_t delay_ms) {
  const RetryPolicy& policy = options_.retry;
  if (policy.attempts_max <= 1) return false;
  // Also with a hint, as of a server that stops: whether another one comes is not known. The hint
  // is the server's, or a proxy's, and may be any number.
  if (absl::IsUnavailable(status)) {
    busy_since_.reset();
    return RetryAfterMs(status) <= policy.busy_ms_max && ++unavailable_ < policy.attempts_max;
  }
  const Time now = now_();
  if (!busy_since_.has_value()) busy_since_ = now;
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now - *busy_since_);
  return delay_ms <= policy.busy_ms_max &&
         static_cast<uint64_t>(passed.count()) <= policy.busy_ms_max - delay_ms;
}

bool RetryLoop::Again(const absl::Status& status) {
  if (!IsRetryable(status)) return false;
  ++failures_;
  static thread_local std::minstd_rand generator{std::random_device{}()};
  const double random = std::uniform_real_distribution<double>(0, 1)(generator);
  const uint64_t delay_ms = RetryDelayMs(options_.retry, failures_, RetryAfterMs(status), random);
  if (!Allows(status, delay_ms)) return false;
  if (options_.on_retry) options_.on_retry(status);
  if (options_.sleep) {
    options_.sleep(delay_ms);
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
  }
  repeated_ = true;
  return true;
}

}  // namespace sparseagg::client
