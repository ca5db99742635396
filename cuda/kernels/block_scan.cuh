// Prefix sums over the threads of a block (Hillis and Steele, 1986): log2(threads) steps of two
// phases. Simple rather than fast: the kernels that use it wait for memory.
#ifndef SPARSEAGG_CUDA_KERNELS_BLOCK_SCAN_CUH_
#define SPARSEAGG_CUDA_KERNELS_BLOCK_SCAN_CUH_

#include <cstdint>

#include "cuda/kernels/launch.cuh"

namespace sparseagg::gpu {

// numbers[t] becomes the sum of numbers[0] to numbers[t]. `numbers` [kThreads] is shared memory;
// Local needs a member `uint32_t addend`.
template <unsigned kThreads, class Block>
SPARSEAGG_DEVICE inline void InclusiveSum(Block& block, uint32_t* numbers) {
  for (unsigned distance = 1; distance < kThreads; distance *= 2) {
    block.Each(
        [=](unsigned t, auto& local) { local.addend = t >= distance ? numbers[t - distance] : 0; });
    block.Each([=](unsigned t, auto& local) { numbers[t] += local.addend; });
  }
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_BLOCK_SCAN_CUH_
