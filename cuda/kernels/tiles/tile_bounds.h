// Cuts the index space of a batch of sorted updates into tiles of about as many entries each, none
// of more rows than a block has bits for.
#ifndef SPARSEAGG_CUDA_KERNELS_TILES_TILE_BOUNDS_H_
#define SPARSEAGG_CUDA_KERNELS_TILES_TILE_BOUNDS_H_

#include <cstdint>

#include "cuda/kernels/batch.h"
#include "cuda/kernels/launch/count.h"
#include "cuda/raii/queue.h"

namespace sparseagg::gpu {

// One entry in this number is a sample.
inline constexpr uint64_t kEntriesOfSample = 64;

struct TileShape {
  uint64_t rows_max;     // of a tile, which lies between two multiples of it
  uint64_t samples_max;  // of a tile, unless more are of one row
};

// Tiles that there are at most.
uint64_t TilesMost(const BatchView& batch, const TileShape& shape);

// Tile t has the rows from rows[t] on, up to the next tile's, and entries [entries[t, u],
// entries[t + 1, u]) of update u; the last tile has all that are left.
struct TileBounds {
  DeviceArray<uint64_t> first;    // [spans + 1]: tiles of the multiples before; the last: all
  DeviceArray<uint64_t> rows;     // [tiles], ascending; may be longer
  DeviceArray<uint32_t> entries;  // [tiles, num_updates]; may be longer

  // At least one.
  Count tiles() const { return {first.data() + first.size() - 1, rows.size()}; }
};

// REQUIRES: updates sorted by row; TilesMost() times num_updates below 2^32. Throws CudaError.
TileBounds CutIntoTiles(Queue& queue, const BatchView& batch, const TileShape& shape);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_TILES_TILE_BOUNDS_H_
