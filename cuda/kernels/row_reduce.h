// Plan "row_reduce": rows of several values. Row ids are sorted with their sources, the values stay
// where they are and are read once, eight bytes a thread.
#ifndef SPARSEAGG_CUDA_KERNELS_ROW_REDUCE_H_
#define SPARSEAGG_CUDA_KERNELS_ROW_REDUCE_H_

#include "cuda/run.h"

namespace sparseagg::gpu {

// The slots of every row that the batch has. Waits for the queue where memory is short (MakeRun).
// Throws CudaError.
Run ReduceRows(Queue& queue, const BatchView& batch, const SlotRule& rule);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_ROW_REDUCE_H_
