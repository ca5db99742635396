// Finds the runs of equal rows of a batch, and sums them up, tile by tile.
#ifndef SPARSEAGG_CUDA_KERNELS_SORT_SORTED_TILES_H_
#define SPARSEAGG_CUDA_KERNELS_SORT_SORTED_TILES_H_

#include "cuda/kernels/batch.h"
#include "cuda/kernels/sort/sort_entries.h"
#include "cuda/kernels/sort/sorted_slots.h"
#include "cuda/slot_run.h"

namespace sparseagg::gpu {

// Positions of a tile. A row's positions are split where tiles end, at fixed places, and the parts
// are joined; the slots are integers, so the split changes no bit.
inline constexpr uint32_t kTilePositions = 2048;

// The positions of the runs of equal rows.
struct TiledRuns {
  DeviceArray<uint64_t> first;  // [tiles + 1]: runs that begin before the tile; the last: all
  uint64_t tiles = 0;
};

// A batch, sorted, and the run that it becomes: its rows are there, its slots have their memory.
struct SortedRuns {
  SortedArrays sorted;
  TiledRuns runs;
  SlotRun run;
  DeviceArray<uint64_t> starts;  // [run.count]: the first position of each; empty: not asked for
};

// Waits for the queue where memory is short (MakeRun). Throws CudaError.
SortedRuns SortIntoRuns(Queue& queue, const BatchView& batch, const SlotRule& rule,
                        bool with_starts = true);

// slots: a run for each of `runs`, [rule.slots()] each.
void ReduceTiles(Queue& queue, const BatchView& batch, const SlotRule& rule,
                 const SortedEntries& sorted, const TiledRuns& runs, Int128* slots);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_SORT_SORTED_TILES_H_
