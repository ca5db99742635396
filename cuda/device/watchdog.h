// Notices that a thread waits for the device without end. No thread stands beside it: whoever waits
// for that thread, or wants to know how the device is, asks.
#ifndef SPARSEAGG_CUDA_DEVICE_WATCHDOG_H_
#define SPARSEAGG_CUDA_DEVICE_WATCHDOG_H_

#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>

#include "cuda/raii/waits.h"
#include "cuda/tuning.h"

namespace sparseagg::gpu {

// Thread-safe.
class Watchdog {
 public:
  // `waits` must outlive it.
  Watchdog(Waits& waits, std::chrono::seconds limit, Clock clock)
      : waits_(waits), limit_(limit), clock_(std::move(clock)) {}

  // Whether the thread is given up: from the first call on that finds it in the wait in which a
  // call had found it `limit` before.
  bool Barks() {
    const std::lock_guard lock(mutex_);
    const uint64_t wait = waits_.current();
    if (given_up_ || wait == Waits::kNone) return given_up_;
    const auto now = clock_();
    if (wait != seen_) {
      seen_ = wait;
      since_ = now;
    }
    given_up_ = now - since_ >= limit_ && waits_.GiveUp(wait);
    return given_up_;
  }

 private:
  Waits& waits_;
  const std::chrono::seconds limit_;
  const Clock clock_;
  std::mutex mutex_;
  bool given_up_ = false;
  uint64_t seen_ = Waits::kNone;  // the wait that the last call found
  std::chrono::steady_clock::time_point since_;
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_DEVICE_WATCHDOG_H_
