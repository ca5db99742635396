// Prefix sums.
#ifndef SPARSEAGG_CUDA_KERNELS_LAUNCH_SCAN_H_
#define SPARSEAGG_CUDA_KERNELS_LAUNCH_SCAN_H_

#include <cstdint>

#include "cuda/kernels/batch.h"
#include "cuda/raii/queue.h"

namespace sparseagg::gpu {

// Replaces each number by the sum of those before it. Neither waits. Throws CudaError.
void ExclusiveSum(Queue& queue, uint64_t* numbers, uint64_t size);

// slots[i, c] becomes the join of slots[j, c], j from the first of the positions before i that have
// i's key without a break, to i. keys [size], slots [size, rule.slots()]. REQUIRES: one or two
// slots.
void JoinByKey(Queue& queue, const SlotRule& rule, const uint64_t* keys, Int128* slots,
               uint64_t size);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_LAUNCH_SCAN_H_
