// Plan "cusparse_spmm": the sum of rows as a product. The sorted rows are a matrix that selects
// entries, the entries' fixed-point values are the dense matrix, and cuSPARSE multiplies them.
#ifndef SPARSEAGG_CUDA_KERNELS_CUSPARSE_CUSPARSE_SPMM_H_
#define SPARSEAGG_CUDA_KERNELS_CUSPARSE_CUSPARSE_SPMM_H_

#include "cuda/slot_run.h"

namespace sparseagg::gpu {

// The slots of every row that the batch has. REQUIRES: exact sums; HaveCusparse(). Waits for the
// queue where memory is short (MakeRun) or the library does. Throws CudaError.
SlotRun ReduceBySpmm(Queue& queue, const BatchView& batch, const SlotRule& rule);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_CUSPARSE_CUSPARSE_SPMM_H_
