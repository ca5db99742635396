// What the window of the accumulators does not hold: found in a pass over the values of its own, so
// that it can be done again with more memory, and the plans need not know of it.
#ifndef SPARSEAGG_CUDA_KERNELS_SIDE_H_
#define SPARSEAGG_CUDA_KERNELS_SIDE_H_

#include "cuda/kernels/batch.h"
#include "sparse/side_entry.h"

namespace sparseagg::gpu {

// The memory into which kernels write side entries.
struct SideList {
  DeviceArray<SideEntry> entries;
  DeviceArray<uint64_t> count;  // [1]: those beyond the size of `entries` are counted only
};

// Lists the products of values [begin, end) of the batch, counted over rows and columns, that are
// outside the window of `rule`, in any order. Does not wait. REQUIRES: exact sums of floating
// values.
void ExtractSide(Queue& queue, const BatchView& batch, const SlotRule& rule, uint64_t begin,
                 uint64_t end, const SideList& list);

// An empty list with memory for the few entries that there usually are.
SideList MakeSideList(Queue& queue, const BatchView& batch);

// As ExtractSide() for all values, with memory for the few that there usually are.
SideList ListSide(Queue& queue, const BatchView& batch, const SlotRule& rule);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_SIDE_H_
