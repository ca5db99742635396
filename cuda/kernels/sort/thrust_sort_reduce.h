// Plan "thrust_sort_reduce": Thrust's sort_by_key and reduce_by_key with exact accumulators. The
// simplest right thing, and the yardstick of the others.
#ifndef SPARSEAGG_CUDA_KERNELS_SORT_THRUST_SORT_REDUCE_H_
#define SPARSEAGG_CUDA_KERNELS_SORT_THRUST_SORT_REDUCE_H_

#include "cuda/slot_run.h"

namespace sparseagg::gpu {

// The slots of every row that the batch has. Waits for the queue. Throws CudaError.
SlotRun ReduceByThrust(Queue& queue, const BatchView& batch, const SlotRule& rule);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_SORT_THRUST_SORT_REDUCE_H_
