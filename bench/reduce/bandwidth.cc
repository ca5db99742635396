#include "bench/reduce/bandwidth.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "bench/reduce/stopwatch.h"

namespace sparseagg::bench {
namespace {

constexpr int kPasses = 4;
constexpr size_t kHugePageBytes = size_t{2} << 20;

// Eight sums side by side: one would measure the latency of additions.
uint64_t Sum(const uint64_t* begin, const uint64_t* end) {
  uint64_t sums[8] = {};
  for (; end - begin >= 8; begin += 8) {
    for (int i = 0; i < 8; ++i) sums[i] += begin[i];
  }
  return std::accumulate(begin, end, std::accumulate(sums, sums + 8, uint64_t{0}));
}

}  // namespace

double ReadBandwidth(uint32_t threads, size_t bytes) {
  const size_t size = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  auto* data = static_cast<uint64_t*>(std::aligned_alloc(kHugePageBytes, size));
  if (data == nullptr) return 0;
  madvise(data, size, MADV_HUGEPAGE);  // page walks are not what is measured
  const size_t words = size / sizeof(uint64_t);
  std::fill(data, data + words, uint64_t{1});
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    std::vector<uint64_t> sums(threads);
    const Stopwatch timed;
    std::vector<std::jthread> readers;
    for (uint32_t t = 0; t < threads; ++t) {
      readers.emplace_back(
          [&, t] { sums[t] = Sum(data + words * t / threads, data + words * (t + 1) / threads); });
    }
    readers.clear();
    const double seconds = timed.Seconds();
    if (std::accumulate(sums.begin(), sums.end(), uint64_t{0}) != words) std::abort();
    best = std::max(best, static_cast<double>(size) / seconds);
  }
  std::free(data);
  return best;
}

}  // namespace sparseagg::bench
