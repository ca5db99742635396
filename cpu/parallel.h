// Parallel loops of the CPU back end, on a bounded number of oneTBB threads.
#ifndef SPARSEAGG_CPU_PARALLEL_H_
#define SPARSEAGG_CPU_PARALLEL_H_

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "sparse/host_device.h"

namespace sparseagg {

// Thread-safe: several aggregators share one arena.
class Parallel {
 public:
  // Work is cut for `threads` threads; at most as many run as the machine has.
  explicit Parallel(uint32_t threads)
      : arena_(
            static_cast<int>(std::min(threads, std::max(1u, std::thread::hardware_concurrency())))),
        threads_(threads) {}

  uint32_t threads() const { return threads_; }

  // Calls f(i) for 0 <= i < n, each once, in any order and concurrently. Returns when all are done.
  // Exceptions of f (no memory) come out of here.
  template <class F>
  void For(size_t n, const F& f) {
    if (n == 0) return;
    if (n == 1 || threads_ == 1) {
      for (size_t i = 0; i < n; ++i) f(i);
      return;
    }
    char fork = 0;
    char join = 0;
    SPARSEAGG_TSAN_RELEASE(&fork);
    arena_.execute([&] {
      tbb::parallel_for(
          size_t{0}, n,
          [&](size_t i) {
            SPARSEAGG_TSAN_ACQUIRE(&fork);
            f(i);
            SPARSEAGG_TSAN_RELEASE(&join);
          },
          tbb::simple_partitioner());
    });
    SPARSEAGG_TSAN_ACQUIRE(&join);
  }

 private:
  tbb::task_arena arena_;
  uint32_t threads_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_PARALLEL_H_
