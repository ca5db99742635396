// The slots of a batch whose entries are sorted by row: for every position, or summed up row by
// row.
#ifndef SPARSEAGG_CUDA_KERNELS_SORT_SORTED_SLOTS_H_
#define SPARSEAGG_CUDA_KERNELS_SORT_SORTED_SLOTS_H_

#include "cuda/kernels/batch.h"
#include "cuda/kernels/rows/row_pieces.h"

namespace sparseagg::gpu {

// Positions in the order of their rows; those of equal rows in the order of the batch, so that the
// entries of one update lie together.
struct SortedEntries {
  const uint64_t* rows = nullptr;     // [size]; row << entry_bits | entry when `entries` is null
  const uint32_t* entries = nullptr;  // [size], which entry of the batch stands there
  uint64_t size = 0;
  int entry_bits = 0;

  SPARSEAGG_HOST_DEVICE uint64_t Row(uint64_t p) const {
    return entries == nullptr ? rows[p] >> entry_bits : rows[p];
  }
  SPARSEAGG_HOST_DEVICE uint64_t Entry(uint64_t p) const {
    return entries == nullptr ? rows[p] & ((uint64_t{1} << entry_bits) - 1) : entries[p];
  }
};

// The rows of the batch's entries, in its order, and their numbers. Both [batch.nnz].
void FlattenRows(Queue& queue, const BatchView& batch, uint64_t* rows, uint32_t* entries);

// What each position adds to its row: slots [size, slots()].
void FillSlots(Queue& queue, const BatchView& batch, const SlotRule& rule,
               const SortedEntries& sorted, Int128* slots);

// Columns [first_column, slots()) of the slots of each run: slots [runs, slots()], and the partials
// of its other pieces (JoinPieces). One thread for each slot of a piece.
void WalkPieces(Queue& queue, const BatchView& batch, const SlotRule& rule,
                const SortedEntries& sorted, const RowPieces& pieces, uint32_t first_column,
                Int128* slots);

// All columns, joined. starts [runs]: the first position of each run.
void WalkRows(Queue& queue, const BatchView& batch, const SlotRule& rule,
              const SortedEntries& sorted, const uint64_t* starts, const Count& runs,
              Int128* slots);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_SORT_SORTED_SLOTS_H_
