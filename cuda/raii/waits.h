// A thread's waits for the device, as other threads see them: whether it waits, and a way to give
// up on a wait that does not end.
#ifndef SPARSEAGG_CUDA_RAII_WAITS_H_
#define SPARSEAGG_CUDA_RAII_WAITS_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

#include "cuda/error.h"

namespace sparseagg::gpu {

class Waits {
 public:
  static constexpr uint64_t kNone = 0;

  // Runs f, which may wait for the device, and gives its result. One thread at a time. Throws
  // CudaError when somebody has given up: what the thread would touch next may be gone.
  template <class F>
  auto During(const F& f) {
    const uint64_t before = number_.load();
    if (before == kGivenUp) ThrowGivenUp();
    number_.store(before + 1);
    const auto result = [&] {
      const End end{number_, before + 1};
      return f();
    }();
    if (number_.load() == kGivenUp) ThrowGivenUp();
    return result;
  }

  // Thread-safe. The number of the wait that the thread is in; kNone when it does not wait.
  uint64_t current() const {
    const uint64_t number = number_.load();
    return number % 2 == 0 ? kNone : number;
  }

  // Thread-safe. Whether the thread was still in that wait; if so, it never leaves it but by an
  // exception.
  bool GiveUp(uint64_t wait) { return number_.compare_exchange_strong(wait, kGivenUp); }

 private:
  // The end of a wait, unless that was given up.
  struct End {
    std::atomic<uint64_t>& number;
    uint64_t wait;
    ~End() {
      uint64_t expected = wait;
      number.compare_exchange_strong(expected, wait + 1);
    }
  };

  static constexpr uint64_t kGivenUp = ~uint64_t{0};
  [[noreturn]] static void ThrowGivenUp() {
    throw CudaError(cudaErrorLaunchTimeout, "a wait that was given up");
  }

  std::atomic<uint64_t> number_{0};  // odd: in a wait
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_RAII_WAITS_H_
