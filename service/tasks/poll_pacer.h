// Spreads the workers that found no task, so that they ask at a bounded rate however many they are.
//
// Each of them gets a slot of its own: slots are 1 / rate apart, so N workers come back after N /
// rate, and nobody has to know N. The window of the answer begins at the slot and is a quarter of
// the delay long, so that workers that were in step do not stay so.
//
//   now      now + kDelayMin                      next slot
//    |-----------|----|----|----|----|----|----|-----|
//                 slots of those that asked before
//
// A worker that asks before its slot gets a later one in a line of its own, which begins at that
// slot: it makes nobody else wait. Processes that share one name share its line, and are spread.
#ifndef SPARSEAGG_SERVICE_TASKS_POLL_PACER_H_
#define SPARSEAGG_SERVICE_TASKS_POLL_PACER_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
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

  // `worker` has found no task. O(log n) for n workers that wait.
  RetryWindow Next(std::string_view worker, std::chrono::steady_clock::time_point now) {
    ForgetPassed(now);
    const size_t key = absl::HashOf(worker);
    const auto own = slots_.find(key);
    const bool is_early = own != slots_.end();
    const auto next = is_early ? own->second + interval_ : next_slot_;
    const auto slot = std::clamp(next, now + kDelayMin, now + kDelayMax);
    if (is_early) {
      by_slot_.erase({own->second, key});
    } else {
      next_slot_ = slot + interval_;
      if (slots_.size() == kWorkersMax) ForgetFirst();
    }
    slots_[key] = slot;
    by_slot_.emplace(slot, key);
    const auto delay = std::chrono::ceil<std::chrono::milliseconds>(slot - now);
    return {.min = delay, .max = delay + delay / 4};
  }
  // Forgets the workers whose slots have passed.
  void ForgetPassed(std::chrono::steady_clock::time_point now) {
    while (!by_slot_.empty() && by_slot_.begin()->first <= now) ForgetFirst();
  }
  size_t workers() const { return slots_.size(); }
  // Returns whether a new pacer would answer the same.
  bool IsIdle(std::chrono::steady_clock::time_point now) const {
    const bool has_passed = by_slot_.empty() || by_slot_.rbegin()->first <= now;
    return has_passed && next_slot_ <= now + kDelayMin;
  }

 private:
  using Nanoseconds = std::chrono::nanoseconds;

  // Of more, those with the next slots are forgotten, so that they may ask early. Each takes about
  // 100 bytes.
  static constexpr size_t kWorkersMax = 262'144;

  void ForgetFirst() {
    slots_.erase(by_slot_.begin()->second);
    by_slot_.erase(by_slot_.begin());
  }

  const Nanoseconds interval_;
  std::chrono::steady_clock::time_point next_slot_;
  // The workers whose slot is still to come, by the hash of their names: two of the same hash share
  // a line, as if they had one name.
  absl::flat_hash_map<size_t, std::chrono::steady_clock::time_point> slots_;
  std::set<std::pair<std::chrono::steady_clock::time_point, size_t>> by_slot_;
};

// The pacers of tenants. Thread-compatible.
class PollPacers {
 public:
  // `rate` of each tenant, as of PollPacer.
  explicit PollPacers(uint64_t rate) : rate_(rate) {}

  RetryWindow Next(const std::string& tenant, std::string_view worker,
                   std::chrono::steady_clock::time_point now) {
    return pacers_.try_emplace(tenant, rate_).first->second.Next(worker, now);
  }
  // Forgets the slots that have passed, and the tenants whose pacers make no difference.
  void Forget(std::chrono::steady_clock::time_point now) {
    for (auto& [tenant, pacer] : pacers_) pacer.ForgetPassed(now);
    std::erase_if(pacers_, [&](const auto& pacer) { return pacer.second.IsIdle(now); });
  }
  size_t tenants() const { return pacers_.size(); }

 private:
  const uint64_t rate_;
  std::map<std::string, PollPacer> pacers_;  // by tenant
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TASKS_POLL_PACER_H_
