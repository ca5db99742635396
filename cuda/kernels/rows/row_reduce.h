// Plan "row_reduce": rows of several values. Row ids are sorted with their sources, the values stay
// where they are and are read once. A batch that is the whole round is rounded where it is summed,
// so that its slots never go through memory.
#ifndef SPARSEAGG_CUDA_KERNELS_ROWS_ROW_REDUCE_H_
#define SPARSEAGG_CUDA_KERNELS_ROWS_ROW_REDUCE_H_

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/finalize.h"
#include "cuda/kernels/rows/row_pieces.h"
#include "cuda/kernels/side.h"
#include "cuda/kernels/sort/sorted_tiles.h"
#include "cuda/slot_run.h"

namespace sparseagg::gpu {

// The slots of every row that the batch has. Waits for the queue where memory is short (MakeRun).
// Throws CudaError.
SlotRun ReduceRows(Queue& queue, const BatchView& batch, const SlotRule& rule);

// The results of a batch, in device memory. Those of rows with side entries are of their other
// entries alone.
struct RoundedRows {
  SortedRuns sorted;  // sorted.run has the rows, and no slots
  RowPieces pieces;
  DeviceArray<Int128> heads;  // of a run of several pieces the first, at the number of its second
  DeviceArray<std::byte> values;   // [rows, result width]
  DeviceArray<uint64_t> infinite;  // [1]: results beyond the range of their type
  SideList side;                   // what the window does not hold
};

// Whether RoundRows() can do it: sums of floats of at most 32 bits, in rows that have lanes.
bool CanRoundRows(const Finalization& finalization);

// As ReduceRows() and then FinalizeRun(), without slots in memory; and puts aside what the window
// does not hold, in the same pass. REQUIRES: CanRoundRows(). Throws CudaError.
RoundedRows RoundRows(Queue& queue, const BatchView& batch, const Finalization& finalization);

// The slots of some of those rows: slots [size, slots()]. rows [size]: device memory. REQUIRES: the
// batch has all of them.
void SumRoundedRows(Queue& queue, const BatchView& batch, const SlotRule& rule,
                    const RoundedRows& rounded, const uint64_t* rows, uint64_t size, Int128* slots);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_ROWS_ROW_REDUCE_H_
