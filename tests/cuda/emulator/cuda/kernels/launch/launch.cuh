// The tests' version of cuda/kernels/launch/launch.cuh: runs the kernels' functors on the host. A
// block's threads take turns, phase by phase, so indexing, tiling and arithmetic are those of the
// device; races between threads are not seen here (compute-sanitizer looks for them, where there is
// a GPU). Blocks run one after the other: one that waits for another would wait for ever, and ends
// the process.
#ifndef SPARSEAGG_TESTS_CUDA_EMULATOR_CUDA_KERNELS_LAUNCH_LAUNCH_CUH_
#define SPARSEAGG_TESTS_CUDA_EMULATOR_CUDA_KERNELS_LAUNCH_LAUNCH_CUH_

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <typeinfo>
#include <vector>

#include "cuda/error.h"
#include "cuda/kernels/launch/count.h"
#include "cuda/raii/queue.h"
#include "sparse/float_format.h"
#include "tests/cuda/emulator/runtime.h"

#define SPARSEAGG_DEVICE
#define SPARSEAGG_UNROLL

namespace sparseagg::gpu {

template <class T>
T AtomicAdd(T* to, T addend) {
  const T before = *to;
  *to += addend;
  return before;
}
inline void AtomicOr(uint32_t* to, uint32_t bits) { *to |= bits; }
template <class T>
void AtomicMin(T* to, T value) {
  *to = std::min(*to, value);
}
template <class T>
void AtomicMax(T* to, T value) {
  *to = std::max(*to, value);
}

template <class T>
T LoadConstant(const T* from) {
  return *from;
}
inline void StoreRelaxed(uint64_t* to, uint64_t word) { *to = word; }
inline uint64_t AwaitNonZero(const uint64_t* from) {
  if (*from == 0) {
    std::fputs("a block waits for one that has not run\n", stderr);
    std::abort();
  }
  return *from;
}

// As on the device, in two words.
inline void AtomicAddSlot(Int128* slot, Int128 addend) {
  auto* words = reinterpret_cast<uint64_t*>(slot);
  const auto low = static_cast<uint64_t>(addend);
  const uint64_t before = AtomicAdd(&words[0], low);
  const uint64_t carry = before + low < low ? 1 : 0;
  AtomicAdd(&words[1], static_cast<uint64_t>(static_cast<UInt128>(addend) >> 64) + carry);
}

template <class F>
void ForEach(Queue& queue, const Count& count, uint64_t each, const F& f) {
  if (count.most * each == 0) return;
  queue.Launched(typeid(F).name());
  sparseagg::testing::CheckArguments(queue.cuda_stream(), &f, sizeof(f));
  sparseagg::testing::CheckArguments(queue.cuda_stream(), &count, sizeof(count));
  sparseagg::testing::Launch(queue.cuda_stream(), [=] {
    // Backwards: nothing may depend on an order.
    for (uint64_t i = count.Get() * each; i-- > 0;) f(i);
  });
}

template <class F>
void ForEach(Queue& queue, uint64_t n, const F& f) {
  ForEach(queue, Count{nullptr, n}, 1, f);
}

template <class Kernel>
struct Warp {
  unsigned index;
  typename Kernel::Local* locals;

  template <class F>
  void Each(const F& f) {
    for (unsigned lane = 32; lane-- > 0;) f(lane, locals[lane]);
  }
};

template <class Kernel>
struct Block {
  uint64_t index;
  uint64_t count;
  typename Kernel::Shared& shared;
  std::vector<typename Kernel::Local> locals;

  template <class F>
  void Each(const F& f) {
    for (unsigned thread = Kernel::kThreads; thread-- > 0;) f(thread, locals[thread]);
  }
  template <class F>
  void EachWarp(const F& f) {
    for (unsigned w = Kernel::kThreads / 32; w-- > 0;) {
      Warp<Kernel> warp{w, locals.data() + w * 32};
      f(warp);
    }
  }
};

template <class Kernel>
void ForEachBlock(Queue& queue, uint64_t blocks, const Kernel& kernel) {
  if (blocks == 0) return;
  queue.Launched(typeid(Kernel).name());
  sparseagg::testing::CheckArguments(queue.cuda_stream(), &kernel, sizeof(kernel));
  sparseagg::testing::Launch(queue.cuda_stream(), [=] {
    const auto shared = std::make_unique<typename Kernel::Shared>();
    for (uint64_t b = blocks; b-- > 0;) {
      // Nobody clears it there.
      std::memset(static_cast<void*>(shared.get()), 0xA5, sizeof(*shared));
      Block<Kernel> block{b, blocks, *shared, {}};
      block.locals.resize(Kernel::kThreads);
      kernel.Run(block);
    }
  });
}

inline constexpr unsigned kWarpLanes = 32;

template <class Kernel>
struct WarpTask {
  uint64_t index;
  typename Kernel::Shared& shared;
  std::vector<typename Kernel::Local> locals;

  template <class F>
  void Each(const F& f) {
    for (unsigned lane = kWarpLanes; lane-- > 0;) f(lane, locals[lane]);
  }
  template <class F>
  void InclusiveSum(const F& f) {
    for (unsigned lane = 1; lane < kWarpLanes; ++lane) f(locals[lane]) += f(locals[lane - 1]);
  }
};

template <class Kernel>
void ForEachWarp(Queue& queue, const Count& count, uint64_t each, const Kernel& kernel) {
  if (count.most == 0) return;
  queue.Launched(typeid(Kernel).name());
  sparseagg::testing::CheckArguments(queue.cuda_stream(), &kernel, sizeof(kernel));
  sparseagg::testing::Launch(queue.cuda_stream(), [=] {
    const auto shared = std::make_unique<typename Kernel::Shared>();
    for (uint64_t w = (count.Get() + each - 1) / each; w-- > 0;) {
      std::memset(static_cast<void*>(shared.get()), 0xA5, sizeof(*shared));
      WarpTask<Kernel> warp{w, *shared, {}};
      warp.locals.resize(kWarpLanes);
      kernel.Run(warp);
    }
  });
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_TESTS_CUDA_EMULATOR_CUDA_KERNELS_LAUNCH_LAUNCH_CUH_
