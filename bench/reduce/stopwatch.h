// How time is taken: the rules that own contenders and peers share.
#ifndef SPARSEAGG_BENCH_REDUCE_STOPWATCH_H_
#define SPARSEAGG_BENCH_REDUCE_STOPWATCH_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

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
inline constexpr double kProcessSeconds = 3;

// The runs that count, `repetitions` of them, or fewer where they are slow.
template <typename RunOnce>
auto RunsOf(int repetitions, RunOnce run_once) {
  const Stopwatch process;
  std::vector<decltype(run_once())> runs;
  const size_t most = kRunsNotCounted + static_cast<size_t>(repetitions);
  do {
    runs.push_back(run_once());
  } while (runs.size() < most && process.Seconds() < kProcessSeconds);
  runs.erase(runs.begin(), runs.begin() + std::min(kRunsNotCounted, runs.size() - 1));
  return runs;
}

}  // namespace sparseagg::bench

#endif  // SPARSEAGG_BENCH_REDUCE_STOPWATCH_H_
