// Spreads the workers that found no task, so that they ask at a bounded rate however many they are.
//
// Each of them gets a slot of its own: slots are 1 / rate apart, so N workers come back after N /
// rate, and nobody has to know N. The window of the answer begins at the slot and is a quarter of
// the delay long, so that workers that were in step do not stay so.
//
//   now      now + kDelayMin                      next slot
//    |-----------|----|----|----|----|----|----|-----|
//                 slots of those that asked before
#ifndef SPARSEAGG_SERVICE_TASKS_POLL_PACER_H_
#define SPARSEAGG_SERVICE_TASKS_POLL_PACER_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "service/tasks/task_types.h"

namespace sparseagg {

// Thread-compatible.
class PollPacer {
 public:
  // A worker waits at least this long, also if it is the only one: it costs two polls a second.
  static constexpr std::chrono::milliseconds kDelayMin{500};
  // Beyond this the rate may be exceeded: a worker that waited for hours would be of no use.
  static constexpr std::chrono::milliseconds kDelayMax{600'000};

  // `rate`: wanted polls in a second; 0: no limit.
  explicit PollPacer(uint64_t rate)
      : interval_(rate == 0 ? Nanoseconds(0) : Nanoseconds(1'000'000'000 / rate)) {}

  RetryWindow Next(std::chrono::steady_clock::time_point now) {
    const auto earliest = now + kDelayMin;
    const auto slot = std::clamp(next_slot_, earliest, now + kDelayMax);
    next_slot_ = slot + interval_;
    const auto delay = std::chrono::ceil<std::chrono::milliseconds>(slot - now);
    return {.min = delay, .max = delay + delay / 4};
  }
  // Returns whether a new pacer would answer the same.
  bool IsIdle(std::chrono::steady_clock::time_point now) const {
    return next_slot_ <= now + kDelayMin;
  }

 private:
  using Nanoseconds = std::chrono::nanoseconds;

  const Nanoseconds interval_;
  std::chrono::steady_clock::time_point next_slot_;
};

// The pacers of tenants. Thread-compatible.
class PollPacers {
 public:
  // `rate` of each tenant, as of PollPacer.
  explicit PollPacers(uint64_t rate) : rate_(rate) {}

  RetryWindow Next(const std::string& tenant, std::chrono::steady_clock::time_point now) {
    return pacers_.try_emplace(tenant, rate_).first->second.Next(now);
  }
  // Forgets the tenants whose pacers make no difference.
  void Forget(std::chrono::steady_clock::time_point now) {
    std::erase_if(pacers_, [&](const auto& pacer) { return pacer.second.IsIdle(now); });
  }
  size_t tenants() const { return pacers_.size(); }

 private:
  const uint64_t rate_;
  std::map<std::string, PollPacer> pacers_;  // by tenant
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TASKS_POLL_PACER_H_
