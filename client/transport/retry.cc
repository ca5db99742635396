#include "client/transport/retry.h"

#include <algorithm>
#include <random>
#include <thread>

#include "base/status.h"
#include "client/transport/transport_error.h"

namespace sparseagg::client {

bool IsRetryable(const absl::Status& status) {
  return (absl::IsUnavailable(status) && !IsPermanent(status)) || RetryAfterMs(status) > 0;
}

uint64_t RetryDelayMs(const RetryPolicy& policy, uint32_t attempt, uint64_t hint_ms,
                      double random) {
  uint64_t delay_ms = policy.first_delay_ms;
  for (uint32_t i = 1; i < attempt && delay_ms < policy.delay_ms_max; ++i) delay_ms *= 2;
  delay_ms = std::min(delay_ms, policy.delay_ms_max);
  // The jitter keeps clients that failed together from retrying together.
  delay_ms -= static_cast<uint64_t>(static_cast<double>(delay_ms) / 2 * random);
  return std::max(delay_ms, hint_ms);
}

void RetryLoop::MadeProgress() {
  failures_ = 0;
  unavailable_ = 0;
  away_since_.reset();
  busy_since_.reset();
}

uint64_t RetryLoop::MsSince(Time time) const {
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now_() - time);
  return static_cast<uint64_t>(passed.count());
}

uint64_t RetryLoop::attempt_ms() const {
  if (limits_.call_ms == 0) return 0;
  const uint64_t passed_ms = MsSince(start_);
  return passed_ms < limits_.call_ms ? limits_.call_ms - passed_ms : 1;
}

std::optional<uint64_t> RetryLoop::LeftMs(const absl::Status& status) const {
  std::optional<uint64_t> left_ms;
  const auto limit = [&](uint64_t limit_ms, Time since) {
    if (limit_ms == 0) return;
    const uint64_t passed_ms = std::min(limit_ms, MsSince(since));
    left_ms = std::min(left_ms.value_or(limit_ms), limit_ms - passed_ms);
  };
  limit(limits_.call_ms, start_);
  if (absl::IsUnavailable(status)) limit(limits_.away_ms, *away_since_);
  return left_ms;
}

bool RetryLoop::Allows(const absl::Status& status, uint64_t delay_ms) {
  const RetryPolicy& policy = options_.retry;
  if (policy.attempts_max == 1) return false;
  // This includes errors with a hint, as of a server that stops, because another server may not
  // follow. The hint may come from a proxy and may be any number.
  if (absl::IsUnavailable(status)) {
    busy_since_.reset();
    ++unavailable_;
    if (!away_since_.has_value()) away_since_ = now_();
    return RetryAfterMs(status) <= policy.busy_ms_max &&
           (policy.attempts_max == 0 || unavailable_ < policy.attempts_max);
  }
  away_since_.reset();
  if (!busy_since_.has_value()) busy_since_ = now_();
  return delay_ms <= policy.busy_ms_max && MsSince(*busy_since_) <= policy.busy_ms_max - delay_ms;
}

bool RetryLoop::WaitToRetry(const absl::Status& status) {
  if (!IsRetryable(status)) return false;
  ++failures_;
  static thread_local std::minstd_rand generator{std::random_device{}()};
  const double random = std::uniform_real_distribution<double>(0, 1)(generator);
  const uint64_t hint_ms = RetryAfterMs(status);
  uint64_t delay_ms = RetryDelayMs(options_.retry, failures_, hint_ms, random);
  if (!Allows(status, delay_ms)) return false;
  if (const std::optional<uint64_t> left_ms = LeftMs(status)) {
    // Attempts become more frequent near the limit, so that a server that returns in time is found.
    const uint64_t closer_ms = std::max(*left_ms / 2, options_.retry.first_delay_ms);
    delay_ms = std::max(std::min(delay_ms, closer_ms), hint_ms);
    if (delay_ms >= *left_ms) return false;
  }
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
