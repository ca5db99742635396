// Plan "radix_segments": sort words of (row, entry) over only the bits that are needed. Sums of
// scalars need the top bits alone, the rest is done in shared memory; otherwise the runs of equal
// rows are summed up in tiles of fixed size. A row that everybody has costs no more than others.
#ifndef SPARSEAGG_CUDA_KERNELS_SORT_RADIX_SEGMENTS_H_
#define SPARSEAGG_CUDA_KERNELS_SORT_RADIX_SEGMENTS_H_

#include "cuda/slot_run.h"

namespace sparseagg::gpu {

// The slots of every row that the batch has. Waits for the queue where memory is short
// (slot_run.h). Throws CudaError.
SlotRun ReduceByRadix(Queue& queue, const BatchView& batch, const SlotRule& rule);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_SORT_RADIX_SEGMENTS_H_
