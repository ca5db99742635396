// Sums of unsorted scalars: words of (row, update, entry) are sorted by the top bits of the row
// alone, until those of a span of rows lie together and are as many as a block sums in shared
// memory.
#ifndef SPARSEAGG_CUDA_KERNELS_SORT_BUCKET_SUMS_H_
#define SPARSEAGG_CUDA_KERNELS_SORT_BUCKET_SUMS_H_

#include <cstdint>

#include "cuda/slot_run.h"

namespace sparseagg::gpu {

// A span of more entries is summed by several blocks, each of which takes this number.
inline constexpr uint64_t kHeavyEntries = 1 << 16;

// Whether SumBuckets() can take the batch: sums of scalars; without duplicates inside an update
// where the rule has a row slot; words that fit 64 bits; and no more spans than blocks should look
// at.
bool CanSumBuckets(const BatchView& batch, const SlotRule& rule);

// The slots of every row that the batch has. Waits for the queue where memory is short (FillRun).
// Throws CudaError.
SlotRun SumBuckets(Queue& queue, const BatchView& batch, const SlotRule& rule);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_SORT_BUCKET_SUMS_H_
