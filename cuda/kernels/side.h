// What the window of the accumulators does not hold: found in a pass over the values of its own, so
// that it can be done again with more memory, and the plans need not know of it.
#ifndef SPARSEAGG_CUDA_KERNELS_SIDE_H_
#define SPARSEAGG_CUDA_KERNELS_SIDE_H_

#include "cuda/kernels/batch.h"
#include "sparse/side_entry.h"

namespace sparseagg::gpu {

// Writes the products of the batch that are outside the window of `rule`, in any order, and adds
// their number to *count. Those beyond `capacity` are counted only. REQUIRES: exact sums of
// floating values; *count is 0.
void ExtractSide(Queue& queue, const BatchView& batch, const SlotRule& rule, SideEntry* entries,
                 uint64_t capacity, uint64_t* count);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_SIDE_H_
