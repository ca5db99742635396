// The slots of a batch whose entries are sorted by row: for every position, or summed up row by
// row.
#ifndef SPARSEAGG_CUDA_KERNELS_SORTED_SLOTS_H_
#define SPARSEAGG_CUDA_KERNELS_SORTED_SLOTS_H_

#include "cuda/kernels/batch.h"

namespace sparseagg::gpu {

// Positions in the order of their rows; those of equal rows in the order of the batch, so that the
// entries of one update lie together.
struct SortedEntries {
  const uint64_t* rows = nullptr;     // [size]
  const uint32_t* entries = nullptr;  // [size], which entry of the batch stands there
  uint64_t size = 0;
};

// The rows of the batch's entries, in its order, and their numbers. Both [batch.nnz].
void FlattenRows(Queue& queue, const BatchView& batch, uint64_t* rows, uint32_t* entries);

// What each position adds to its row: slots [size, slots()].
void FillSlots(Queue& queue, const BatchView& batch, const SlotRule& rule,
               const SortedEntries& sorted, Int128* slots);

// The slots of each row, one thread for each: slots [num_runs, slots()]. Row r has the positions
// from starts[r] to the next start.
void WalkRows(Queue& queue, const BatchView& batch, const SlotRule& rule,
              const SortedEntries& sorted, const uint64_t* starts, uint64_t num_runs,
              Int128* slots);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_SORTED_SLOTS_H_
