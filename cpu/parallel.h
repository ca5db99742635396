// Parallel loops of the CPU back end, on a bounded number of oneTBB threads. oneTBB itself is seen
// by parallel.cc only.
#ifndef SPARSEAGG_CPU_PARALLEL_H_
#define SPARSEAGG_CPU_PARALLEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/host_device.h"

namespace sparseagg {

// Thread-safe: several aggregators share one.
class Parallel {
 public:
  // Work is cut for `threads` threads; at most as many run as the machine has.
  explicit Parallel(uint32_t threads);
  ~Parallel();

  uint32_t threads() const { return threads_; }

  // Calls f(i) for 0 <= i < n, each once, in any order and concurrently. Returns when all are done.
  // Exceptions of f (no memory) come out of here, the first of them, when no f runs any more.
  template <class F>
  void For(size_t n, const F& f) {
    SPARSEAGG_TSAN_RELEASE(&sync_);
    const JoinedAtEnd joined;
    Run(n, &CallBody<F>, &f);
  }

 private:
  class Arena;
  using Body = void (*)(const void* f, size_t i);

  template <class F>
  static void CallBody(const void* f, size_t i) {
    SPARSEAGG_TSAN_ACQUIRE(&sync_);
    const DoneAtEnd done;
    (*static_cast<const F*>(f))(i);
  }

  void Run(size_t n, Body body, const void* f);

  // Where ThreadSanitizer is told of fork and join, which it cannot see inside oneTBB.
  static inline char sync_ = 0;

  // The join is also there when f throws, so destructors tell of it. oneTBB (2021.8) keeps the
  // first exception and cancels the group; the task that threw, and each that has not begun, is
  // then finalized by its cancel(), which takes it off the tree of tasks as the end of execute()
  // does (start_for, fold_tree). The caller waits until that tree is empty, an acquire load of what
  // all have decremented, and only then throws (task_dispatcher::execute_and_wait).
  struct DoneAtEnd {
    ~DoneAtEnd() { SPARSEAGG_TSAN_RELEASE(&sync_); }
  };
  struct JoinedAtEnd {
    ~JoinedAtEnd() { SPARSEAGG_TSAN_ACQUIRE(&sync_); }
  };

  const uint32_t threads_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_PARALLEL_H_
