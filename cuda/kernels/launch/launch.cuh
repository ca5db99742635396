// Defines how kernels are written and launched. A kernel is a functor:
//
//   ForEach(queue, n, f)          f(i) for i in [0, n), a thread for each i, in no order
//   ForEach(queue, count, k, f)   the same for n = k times a number that may be on the device
//   ForEachBlock(queue, blocks, k) k.Run(block) for each block of K::kThreads threads. A block
//   works
//                                 in phases: block.Each(f) runs f(thread, local) on every thread,
//                                 then waits for all of them. block.shared is the block's memory,
//                                 `local` is what a thread keeps from phase to phase.
//                                 block.EachWarp(f) is a phase in which each warp runs f(warp) and
//                                 works in phases of its own: warp.Each(g) runs g(lane, local) on
//                                 its 32 threads, then waits for those alone.
//   ForEachWarp(queue, count, n, k) k.Run(warp) for each warp of 32 lanes, one for n of what is
//                                 counted. warp.Each(f) and warp.shared are as a block's, but only
//                                 the lanes of the warp wait for each other; and
//                                 warp.InclusiveSum(f) replaces f(local), a uint32_t&, of each lane
//                                 by the sum of those up to it, by shuffles.
//
// Code between two phases runs on every thread alike: it must read nothing that the next phase
// writes. The tests have a second file of this name (tests/cuda/emulator) that runs the same
// functors on the host, phase by phase; so no kernel uses threadIdx or __shared__ itself.
#ifndef SPARSEAGG_CUDA_KERNELS_LAUNCH_LAUNCH_CUH_
#define SPARSEAGG_CUDA_KERNELS_LAUNCH_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <typeinfo>

#include "cuda/error.h"
#include "cuda/kernels/launch/count.h"
#include "cuda/raii/queue.h"
#include "sparse/float_format.h"

#define SPARSEAGG_DEVICE __device__
// Before a loop whose arrays are to stay in registers.
#define SPARSEAGG_UNROLL _Pragma("unroll")

namespace sparseagg::gpu {

__device__ inline uint64_t AtomicAdd(uint64_t* to, uint64_t addend) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(to), addend);
}
__device__ inline uint32_t AtomicAdd(uint32_t* to, uint32_t addend) {
  return atomicAdd(to, addend);
}
__device__ inline void AtomicOr(uint32_t* to, uint32_t bits) { atomicOr(to, bits); }
__device__ inline void AtomicMin(uint32_t* to, uint32_t value) { atomicMin(to, value); }
__device__ inline void AtomicMin(uint64_t* to, uint64_t value) {
  atomicMin(reinterpret_cast<unsigned long long*>(to), value);
}
__device__ inline void AtomicMax(uint64_t* to, uint64_t value) {
  atomicMax(reinterpret_cast<unsigned long long*>(to), value);
}

// What no thread writes while the kernel runs, through the path for constants.
template <class T>
__device__ inline T LoadConstant(const T* from) {
  if constexpr (sizeof(T) == sizeof(uint64_t)) {
    return __builtin_bit_cast(T, __ldg(reinterpret_cast<const unsigned long long*>(from)));
  } else if constexpr (sizeof(T) == sizeof(uint32_t)) {
    return __builtin_bit_cast(T, __ldg(reinterpret_cast<const unsigned*>(from)));
  } else {
    static_assert(sizeof(T) == sizeof(uint16_t));
    return __builtin_bit_cast(T, __ldg(reinterpret_cast<const unsigned short*>(from)));
  }
}

// One word that other blocks read or write while the kernel runs. No order with other words.
__device__ inline void StoreRelaxed(uint64_t* to, uint64_t word) {
  *static_cast<volatile uint64_t*>(to) = word;
}
// Waits until another block has stored something else than 0. The caller must know that such a
// block is running.
__device__ inline uint64_t AwaitNonZero(const uint64_t* from) {
  uint64_t word = *static_cast<const volatile uint64_t*>(from);
  while (word == 0) {
    __nanosleep(32);
    word = *static_cast<const volatile uint64_t*>(from);
  }
  return word;
}

// Adds to a slot that other threads add to. There is no 128-bit atomic add: the low word's old
// value tells its carry, which is added to the high word. Exact in any order; a reader must wait
// for the end of the kernel.
__device__ inline void AtomicAddSlot(Int128* slot, Int128 addend) {
  auto* words = reinterpret_cast<uint64_t*>(slot);
  const auto low = static_cast<uint64_t>(addend);
  const uint64_t before = AtomicAdd(&words[0], low);
  const uint64_t carry = before + low < low ? 1 : 0;
  const uint64_t high = static_cast<uint64_t>(static_cast<UInt128>(addend) >> 64) + carry;
  if (high != 0) AtomicAdd(&words[1], high);
}

inline constexpr unsigned kForEachThreads = 256;
// Enough blocks to fill any device several times; a thread then takes several i, one
// grid apart.
inline constexpr uint64_t kForEachBlocksMax = 1 << 14;

template <class F>
__global__ void __launch_bounds__(kForEachThreads) ForEachKernel(Count count, uint64_t each, F f) {
  const uint64_t n = count.Get() * each;
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) f(i);
}

template <class F>
void ForEach(Queue& queue, const Count& count, uint64_t each, const F& f) {
  const uint64_t most = count.most * each;
  if (most == 0) return;
  const uint64_t blocks =
      std::min((most + kForEachThreads - 1) / kForEachThreads, kForEachBlocksMax);
  ForEachKernel<<<static_cast<unsigned>(blocks), kForEachThreads, 0, queue.cuda_stream()>>>(
      count, each, f);
  queue.Launched(typeid(F).name());
}

template <class F>
void ForEach(Queue& queue, uint64_t n, const F& f) {
  ForEach(queue, Count{nullptr, n}, 1, f);
}

template <class Kernel>
struct Warp {
  unsigned index;  // in the block
  typename Kernel::Local& local;

  template <class F>
  __device__ void Each(const F& f) {
    f(threadIdx.x % 32, local);
    __syncwarp();
  }
};

template <class Kernel>
struct Block {
  uint64_t index;
  uint64_t count;
  typename Kernel::Shared& shared;
  typename Kernel::Local local = {};

  template <class F>
  __device__ void Each(const F& f) {
    f(threadIdx.x, local);
    __syncthreads();
  }
  template <class F>
  __device__ void EachWarp(const F& f) {
    Warp<Kernel> warp{threadIdx.x / 32, local};
    f(warp);
    __syncthreads();
  }
};

// Blocks that a multiprocessor should have registers for: Kernel::kBlocksOfMultiprocessor, where
// that is said.
template <class Kernel>
constexpr unsigned BlocksOfMultiprocessor() {
  if constexpr (requires { Kernel::kBlocksOfMultiprocessor; }) {
    return Kernel::kBlocksOfMultiprocessor;
  }
  return 0;
}

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, BlocksOfMultiprocessor<Kernel>())
    ForEachBlockKernel(Kernel kernel) {
  extern __shared__ __align__(16) unsigned char memory[];
  Block<Kernel> block{blockIdx.x, gridDim.x, reinterpret_cast<typename Kernel::Shared&>(memory)};
  kernel.Run(block);
}

template <class Kernel>
void ForEachBlock(Queue& queue, uint64_t blocks, const Kernel& kernel) {
  if (blocks == 0) return;
  constexpr size_t kBytes = sizeof(typename Kernel::Shared);
  if (kBytes > (size_t{48} << 10)) {
    CheckCuda(cudaFuncSetAttribute(ForEachBlockKernel<Kernel>,
                                   cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
              "cudaFuncSetAttribute");
  }
  ForEachBlockKernel<<<static_cast<unsigned>(blocks), Kernel::kThreads, kBytes,
                       queue.cuda_stream()>>>(kernel);
  queue.Launched(typeid(Kernel).name());
}

inline constexpr unsigned kWarpLanes = 32;
inline constexpr unsigned kWarpsOfBlock = 8;

template <class Kernel>
struct WarpTask {
  uint64_t index;
  typename Kernel::Shared& shared;
  typename Kernel::Local local = {};

  template <class F>
  __device__ void Each(const F& f) {
    f(threadIdx.x % kWarpLanes, local);
    __syncwarp();
  }
  template <class F>
  __device__ void InclusiveSum(const F& f) {
    uint32_t& sum = f(local);
    for (unsigned distance = 1; distance < kWarpLanes; distance *= 2) {
      const uint32_t before = __shfl_up_sync(~0u, sum, distance);
      if (threadIdx.x % kWarpLanes >= distance) sum += before;
    }
  }
};

template <class Kernel>
__global__ void __launch_bounds__(kWarpLanes* kWarpsOfBlock)
    ForEachWarpKernel(Count count, uint64_t each, Kernel kernel) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto& shared = reinterpret_cast<typename Kernel::Shared*>(memory)[threadIdx.x / kWarpLanes];
  const uint64_t warps = (count.Get() + each - 1) / each;
  const uint64_t stride = uint64_t{gridDim.x} * kWarpsOfBlock;
  for (uint64_t w = uint64_t{blockIdx.x} * kWarpsOfBlock + threadIdx.x / kWarpLanes; w < warps;
       w += stride) {
    WarpTask<Kernel> warp{w, shared};
    kernel.Run(warp);
  }
}

template <class Kernel>
void ForEachWarp(Queue& queue, const Count& count, uint64_t each, const Kernel& kernel) {
  if (count.most == 0) return;
  constexpr size_t kBytes = kWarpsOfBlock * sizeof(typename Kernel::Shared);
  static_assert(kBytes <= (size_t{48} << 10));
  const uint64_t warps = (count.most + each - 1) / each;
  const uint64_t blocks = std::min((warps + kWarpsOfBlock - 1) / kWarpsOfBlock, kForEachBlocksMax);
  ForEachWarpKernel<<<static_cast<unsigned>(blocks), kWarpLanes * kWarpsOfBlock, kBytes,
                      queue.cuda_stream()>>>(count, each, kernel);
  queue.Launched(typeid(Kernel).name());
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_LAUNCH_LAUNCH_CUH_
