// Binary search in sorted device memory.
#ifndef SPARSEAGG_CUDA_KERNELS_LAUNCH_SEARCH_CUH_
#define SPARSEAGG_CUDA_KERNELS_LAUNCH_SEARCH_CUH_

#include <cstdint>

#include "base/host_device.h"

namespace sparseagg::gpu {

// The first position whose row is not below `row`.
SPARSEAGG_HOST_DEVICE inline uint64_t LowerBound(const uint64_t* rows, uint64_t size,
                                                 uint64_t row) {
  uint64_t low = 0;
  while (size > 0) {
    const uint64_t half = size / 2;
    if (rows[low + half] < row) {
      low += half + 1;
      size -= half + 1;
    } else {
      size = half;
    }
  }
  return low;
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_LAUNCH_SEARCH_CUH_
