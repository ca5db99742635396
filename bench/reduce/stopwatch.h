// How time is taken: the rules that own contenders and peers share.
#ifndef SPARSEAGG_BENCH_REDUCE_STOPWATCH_H_
#define SPARSEAGG_BENCH_REDUCE_STOPWATCH_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/reduce/child.h"

namespace sparseagg::bench {

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The first runs of a process do not count: threads start, and memory that a virtual machine's host
// has taken back while it was free comes at a tenth of its speed. Later ones have the same memory.
inline constexpr size_t kRunsNotCounted = 2;

// What is so slow that this time is over has fewer runs, one at least.
inline constexpr double kProcessSeconds = 15;

template <typename Run>
struct Runs {
  std::vector<Run> counted;
  // Of the very first run, which is what one round takes: later ones find pages that the allocator
  // has kept.
  uint64_t peak_bytes = 0;
};

// Runs in this process: `repetitions` that count, or fewer where they are slow.
template <typename RunOnce>
auto RunsOf(int repetitions, RunOnce run_once) {
  const Stopwatch process;
  Runs<decltype(run_once())> runs;
  auto& all = runs.counted;
  all.push_back(run_once());
  runs.peak_bytes = PeakResidentBytes();
  const size_t most = kRunsNotCounted + static_cast<size_t>(repetitions);
  while (all.size() < most && process.Seconds() < kProcessSeconds) all.push_back(run_once());
  all.erase(all.begin(), all.begin() + std::min(kRunsNotCounted, all.size() - 1));
  return runs;
}

}  // namespace sparseagg::bench

#endif  // SPARSEAGG_BENCH_REDUCE_STOPWATCH_H_
