// Parallel loops of the CPU back end, on a bounded number of oneTBB threads. Only parallel.cc
// includes oneTBB.
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
  // Divides work for `threads` threads; no more of them run than the machine has processors.
  explicit Parallel(uint32_t threads);
  ~Parallel();

  uint32_t threads() const { return threads_; }

  // Calls f(i) once for each 0 <= i < n, in any order and concurrently, each under a
  // DefaultFloatEnvironment, and returns when all calls have ended. If calls throw
  // (std::bad_alloc), rethrows the first exception once no call runs any more.
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

  // Announces fork and join to ThreadSanitizer, which cannot see them inside oneTBB.
  static inline char sync_ = 0;

  // Destructors announce the join, because it also happens when f throws. oneTBB (2021.8) keeps the
  // first exception and cancels the group; the task that threw, and each that has not begun, is
  // then finalized by its cancel(), which removes it from the tree of tasks as the end of execute()
  // does (start_for, fold_tree). The caller waits until that tree is empty, an acquire load of the
  // counter that all tasks have decremented, and only then throws
  // (task_dispatcher::execute_and_wait).
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
