// The tests' version of cuda/kernels/launch/block_scan.cuh.
#ifndef SPARSEAGG_TESTS_CUDA_EMULATOR_CUDA_KERNELS_LAUNCH_BLOCK_SCAN_CUH_
#define SPARSEAGG_TESTS_CUDA_EMULATOR_CUDA_KERNELS_LAUNCH_BLOCK_SCAN_CUH_

#include <cstdint>
#include <vector>

#include "cuda/kernels/launch/launch.cuh"

namespace sparseagg::gpu {

template <unsigned kThreads, class Block, class Number, class Use>
void ScanBlock(Block& block, const Number& number, const Use& use) {
  std::vector<uint64_t> numbers(kThreads);
  block.Each([&](unsigned t, auto& local) { numbers[t] = number(t, local); });
  std::vector<uint64_t> before(kThreads);
  uint64_t all = 0;
  for (unsigned t = 0; t < kThreads; ++t) {
    before[t] = all;
    all += numbers[t];
  }
  block.Each([&](unsigned t, auto& local) { use(t, local, before[t], all); });
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_TESTS_CUDA_EMULATOR_CUDA_KERNELS_LAUNCH_BLOCK_SCAN_CUH_
