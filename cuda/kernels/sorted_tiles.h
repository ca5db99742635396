// Sums up the runs of equal rows of sorted entries, tile by tile.
#ifndef SPARSEAGG_CUDA_KERNELS_SORTED_TILES_H_
#define SPARSEAGG_CUDA_KERNELS_SORTED_TILES_H_

#include "cuda/kernels/batch.h"
#include "cuda/kernels/sorted_slots.h"

namespace sparseagg::gpu {

// Positions of a tile. A row's positions are split where tiles end, at fixed places, and the parts
// are joined; the slots are integers, so the split changes no bit.
inline constexpr uint32_t kTilePositions = 2048;

// Where the runs of equal rows are.
struct TiledRuns {
  DeviceArray<uint64_t> first;  // [tiles + 1]: runs that begin before the tile; the last: all
  uint64_t tiles = 0;
  uint64_t size = 0;  // runs
};

// Synchronises the queue, to learn the number of runs.
TiledRuns FindRuns(Queue& queue, const SortedEntries& sorted);

// rows [runs.size], and where each run begins: starts [runs.size].
void ListRuns(Queue& queue, const SortedEntries& sorted, const TiledRuns& runs, uint64_t* rows,
              uint64_t* starts);

// slots [runs.size, rule.slots()].
void ReduceTiles(Queue& queue, const BatchView& batch, const SlotRule& rule,
                 const SortedEntries& sorted, const TiledRuns& runs, Int128* slots);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_SORTED_TILES_H_
