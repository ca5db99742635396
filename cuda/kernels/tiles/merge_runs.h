// Joins two runs: the state of a reduction and what a batch adds to it.
#ifndef SPARSEAGG_CUDA_KERNELS_TILES_MERGE_RUNS_H_
#define SPARSEAGG_CUDA_KERNELS_TILES_MERGE_RUNS_H_

#include <cstdint>

#include "cuda/slot_run.h"

namespace sparseagg::gpu {

// Positions of the merged sequence that a block takes at a time.
inline constexpr uint32_t kMergeTilePositions = 2048;

// The rows of both; where both have a row, its slots joined. Waits for the queue where memory is
// short (FillRun). Throws CudaError; a and b are unchanged then.
SlotRun MergeRuns(Queue& queue, const SlotRule& rule, const SlotRun& a, const SlotRun& b);

// Device memory that MergeRuns takes beside its arguments, at most.
uint64_t MergeBytes(const SlotRule& rule, uint64_t a_size, uint64_t b_size);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_TILES_MERGE_RUNS_H_
