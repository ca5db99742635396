// Plan "tile_merge": every update is sorted already. Blocks sweep over the index space, tile by
// tile; a tile's slots are in shared memory, and each update delivers what it has there. No sort,
// no pass but the one that adds.
#ifndef SPARSEAGG_CUDA_KERNELS_TILES_TILE_MERGE_H_
#define SPARSEAGG_CUDA_KERNELS_TILES_TILE_MERGE_H_

#include "cuda/slot_run.h"

namespace sparseagg::gpu {

// Whether MergeTiles() can take the batch: sums of scalars, sorted; without duplicates inside an
// update where the rule has a row slot; and few enough tiles and updates to be faster than a sort.
bool CanMergeTiles(const BatchView& batch, const SlotRule& rule);

// The slots of every row that the batch has. Waits for the queue where memory is short (MakeRun).
// Throws CudaError.
SlotRun MergeTiles(Queue& queue, const BatchView& batch, const SlotRule& rule);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_TILES_TILE_MERGE_H_
