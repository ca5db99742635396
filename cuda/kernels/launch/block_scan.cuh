// Prefix sums over the threads of a block: one warp scan each and one of the warps' sums
// (cub::BlockScan), in two barriers. The tests have a second file of this name
// (tests/cuda/emulator).
#ifndef SPARSEAGG_CUDA_KERNELS_LAUNCH_BLOCK_SCAN_CUH_
#define SPARSEAGG_CUDA_KERNELS_LAUNCH_BLOCK_SCAN_CUH_

#include <cstdint>
#include <cub/block/block_scan.cuh>

#include "cuda/kernels/launch/launch.cuh"

namespace sparseagg::gpu {

// Two phases of the block: number(thread, local), a uint64_t, on every thread; then
// use(thread, local, before, all) with the sum of the threads before and of all.
template <unsigned kThreads, class Block, class Number, class Use>
__device__ inline void ScanBlock(Block& block, const Number& number, const Use& use) {
  using Scan = cub::BlockScan<uint64_t, kThreads, cub::BLOCK_SCAN_WARP_SCANS>;
  static_assert(kThreads > 32, "a scan of one warp has no barrier between number and use");
  __shared__ typename Scan::TempStorage memory;
  uint64_t before = 0;
  uint64_t all = 0;
  Scan(memory).ExclusiveSum(uint64_t{number(threadIdx.x, block.local)}, before, all);
  use(threadIdx.x, block.local, before, all);
  __syncthreads();
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_LAUNCH_BLOCK_SCAN_CUH_
