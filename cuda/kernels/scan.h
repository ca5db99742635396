// Prefix sums.
#ifndef SPARSEAGG_CUDA_KERNELS_SCAN_H_
#define SPARSEAGG_CUDA_KERNELS_SCAN_H_

#include <cstdint>

#include "cuda/raii/queue.h"

namespace sparseagg::gpu {

// Replaces each number by the sum of those before it. Throws CudaError.
void ExclusiveSum(Queue& queue, uint64_t* numbers, uint64_t size);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_SCAN_H_
