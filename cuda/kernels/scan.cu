// In and out: numbers [size]. One pass (decoupled look-back, in CUB below Thrust), 16 bytes a
// number.
#include <thrust/scan.h>

#include "cuda/kernels/scan.h"
#include "cuda/kernels/thrust_policy.cuh"

namespace sparseagg::gpu {

void ExclusiveSum(Queue& queue, uint64_t* numbers, uint64_t size) {
  if (size == 0) return;
  WithThrust(queue, [&](const auto& policy) {
    return thrust::exclusive_scan(policy, numbers, numbers + size, numbers, uint64_t{0});
  });
}

}  // namespace sparseagg::gpu
