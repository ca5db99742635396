// Brings the entries of a batch into the order of their rows, over only the bits that rows have.
#ifndef SPARSEAGG_CUDA_KERNELS_SORT_SORT_ENTRIES_H_
#define SPARSEAGG_CUDA_KERNELS_SORT_SORT_ENTRIES_H_

#include "cuda/kernels/batch.h"
#include "cuda/kernels/sort/sorted_slots.h"

namespace sparseagg::gpu {

// Owner of SortedEntries' arrays.
struct SortedArrays {
  DeviceArray<uint64_t> rows;
  DeviceArray<uint32_t> entries;
  SortedEntries view;
};

// Words of (row, entry number) where both fit in 64 bits, otherwise pairs. Throws CudaError.
SortedArrays SortEntries(Queue& queue, const BatchView& batch);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_SORT_SORT_ENTRIES_H_
