// How time is taken: the rules that own contenders and peers share.
#ifndef SPARSEAGG_BENCH_REDUCE_STOPWATCH_H_
#define SPARSEAGG_BENCH_REDUCE_STOPWATCH_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "bench/reduce/case_file.h"

namespace sparseagg::bench {

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// A run that warms up for longer than this is measured once in its process: what is small against
// it needs no repetition.
inline constexpr double kSlowSeconds = 0.2;

// Values that warm up: small cases as a whole, of large ones as much as starts all threads.
inline constexpr uint64_t kWarmUpValues = 2'000'000;

inline uint64_t WarmUpEntries(const CaseView& updates) {
  return std::max<uint64_t>(1, kWarmUpValues / updates.layout.row_width);
}

}  // namespace sparseagg::bench

#endif  // SPARSEAGG_BENCH_REDUCE_STOPWATCH_H_
