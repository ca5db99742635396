#include "cpu/parallel.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <thread>

#include "base/float_environment.h"

namespace sparseagg {

class Parallel::Arena {
 public:
  explicit Arena(uint32_t threads)
      : arena_(static_cast<int>(
            std::min(threads, std::max(1u, std::thread::hardware_concurrency())))) {}

  void Run(size_t n, Body body, const void* f) {
    arena_.execute([&] {
      tbb::parallel_for(
          size_t{0}, n,
          [=](size_t i) {
            const DefaultFloatEnvironment usual;
            body(f, i);
          },
          tbb::simple_partitioner());
    });
  }

 private:
  tbb::task_arena arena_;
};

Parallel::Parallel(uint32_t threads)
    : threads_(threads), arena_(std::make_unique<Arena>(threads)) {}

Parallel::~Parallel() = default;

void Parallel::Run(size_t n, Body body, const void* f) {
  if (n > 1 && threads_ > 1) {
    arena_->Run(n, body, f);
  } else {
    const DefaultFloatEnvironment usual;
    for (size_t i = 0; i < n; ++i) body(f, i);
  }
}

}  // namespace sparseagg
