// Which windows are summed on trial: without a look at the errors of single sums, as long as the
// processor says that none was rounded (cpu/kernels/rounding_flag.h). Where one was, the window is
// emptied and summed anew with care, and so are some of those that follow: the more, the more often
// it happens.
#ifndef SPARSEAGG_CPU_WINDOWED_WINDOW_TRIALS_H_
#define SPARSEAGG_CPU_WINDOWED_WINDOW_TRIALS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace sparseagg {

// Of one reduction. Thread-safe: threads that ask at the same time may make a trial more or less.
class WindowTrials {
 public:
  // Whether the next window is to be tried.
  bool Wanted() {
    const uint32_t left = without_.load(std::memory_order_relaxed);
    if (left > 0) without_.store(left - 1, std::memory_order_relaxed);
    return left == 0;
  }

  // What became of a trial.
  void Tell(bool exact) {
    const uint32_t pause = pause_.load(std::memory_order_relaxed);
    if (!exact) without_.store(pause, std::memory_order_relaxed);
    pause_.store(exact ? kPauseMin : std::min(2 * pause, kPauseMax), std::memory_order_relaxed);
  }

 private:
  // A trial that fails is given up early: it costs a part of the window's time.
  static constexpr uint32_t kPauseMin = 4;
  static constexpr uint32_t kPauseMax = 64;

  std::atomic<uint32_t> without_ = 0;        // windows that are summed with care first
  std::atomic<uint32_t> pause_ = kPauseMin;  // that the next failure makes them
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_WINDOW_TRIALS_H_
