// Decides which windows are summed speculatively: without computing the errors of single sums, as
// long as the processor's flag says that none was rounded (cpu/kernels/rounding_flag.h). If one
// was, the window is cleared and summed again on the exact path. After a failed speculation, the
// next 4 windows skip speculation; after each further failure, twice as many, up to 64. A success
// resets that number.
#ifndef SPARSEAGG_CPU_WINDOWED_WINDOW_TRIALS_H_
#define SPARSEAGG_CPU_WINDOWED_WINDOW_TRIALS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace sparseagg {

// One object for each reduction. Thread-safe: concurrent calls may cause one speculation more or
// less.
class WindowTrials {
 public:
  // Whether to sum the next window speculatively.
  bool Wanted() {
    const uint32_t left = without_.load(std::memory_order_relaxed);
    if (left > 0) without_.store(left - 1, std::memory_order_relaxed);
    return left == 0;
  }

  // Records whether a speculation was exact.
  void Tell(bool exact) {
    const uint32_t pause = pause_.load(std::memory_order_relaxed);
    if (!exact) without_.store(pause, std::memory_order_relaxed);
    pause_.store(exact ? kPauseMin : std::min(2 * pause, kPauseMax), std::memory_order_relaxed);
  }

 private:
  // Small, since a speculation that fails ends early: it costs a part of the window's time.
  static constexpr uint32_t kPauseMin = 4;
  static constexpr uint32_t kPauseMax = 64;

  std::atomic<uint32_t> without_ = 0;        // windows that are still to skip speculation
  std::atomic<uint32_t> pause_ = kPauseMin;  // to which the next failure sets that
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_WINDOW_TRIALS_H_
