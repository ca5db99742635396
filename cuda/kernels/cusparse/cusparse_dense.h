// Plan "cusparse_dense": the state of dense_accumulate, made a run by cuSPARSE: its conversion from
// dense to sparse finds the rows that are held, its gather fetches their slots.
#ifndef SPARSEAGG_CUDA_KERNELS_CUSPARSE_CUSPARSE_DENSE_H_
#define SPARSEAGG_CUDA_KERNELS_CUSPARSE_CUSPARSE_DENSE_H_

#include <cstdint>

#include "cuda/kernels/dense_state.h"

namespace sparseagg::gpu {

// Rows that are converted at a time: their flags take 16 MiB.
inline constexpr uint64_t kConvertedRows = uint64_t{1} << 24;

// As ListHeld(), `rows_at_a_time` of the index space after as many others. REQUIRES:
// HaveCusparse(); at most 2^31 rows at a time. Waits for the queue. Throws CudaError.
SlotRun ListHeldInRanges(Queue& queue, const SlotRule& rule, const DenseState& state,
                         uint64_t rows_at_a_time);

inline SlotRun ListHeldByCusparse(Queue& queue, const SlotRule& rule, const DenseState& state) {
  return ListHeldInRanges(queue, rule, state, kConvertedRows);
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_CUSPARSE_CUSPARSE_DENSE_H_
