// Decides which windows are summed speculatively: without computing the errors of single sums, as
// long as the processor's flag says that none was rounded (cpu/kernels/rounding_flag.h). If one
// was, the window is cleared and summed again on the exact path. After a failed speculation, the
// next 4 windows skip speculation; after each further failure, twice as many, up to 64. A success
// resets that number.
#ifndef SPARSEAGG_CPU_WINDOWED_SPECULATION_BACKOFF_H_
#define SPARSEAGG_CPU_WINDOWED_SPECULATION_BACKOFF_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace sparseagg {

// One object for each reduction. Thread-safe: concurrent calls may cause one speculation more or
// less.
class SpeculationBackoff {
 public:
  // Returns whether to sum the next window speculatively.
  bool ShouldTry() {
    const uint32_t skip = skip_.load(std::memory_order_relaxed);
    if (skip > 0) skip_.store(skip - 1, std::memory_order_relaxed);
    return skip == 0;
  }

  // Records whether a speculation was exact.
  void Record(bool exact) {
    const uint32_t next = next_skip_.load(std::memory_order_relaxed);
    if (!exact) skip_.store(next, std::memory_order_relaxed);
    next_skip_.store(exact ? kSkipMin : std::min(2 * next, kSkipMax), std::memory_order_relaxed);
  }

 private:
  // Small, since a speculation that fails ends early: it costs a part of the window's time.
  static constexpr uint32_t kSkipMin = 4;
  static constexpr uint32_t kSkipMax = 64;

  std::atomic<uint32_t> skip_ = 0;              // windows that are still to skip speculation
  std::atomic<uint32_t> next_skip_ = kSkipMin;  // to which the next failure sets skip_
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_SPECULATION_BACKOFF_H_
