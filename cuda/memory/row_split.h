// Cuts an update that is too large for the device.
#ifndef SPARSEAGG_CUDA_MEMORY_ROW_SPLIT_H_
#define SPARSEAGG_CUDA_MEMORY_ROW_SPLIT_H_

#include <vector>

#include "cuda/batch.h"

namespace sparseagg::gpu {

// Two updates with the same entries, those of lower rows in the first, so that the entries of a row
// stay together. Throws CudaError(cudaErrorMemoryAllocation) when all entries are of one row, and
// std::bad_alloc.
std::vector<PendingUpdate> SplitByRow(PendingUpdate update);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_MEMORY_ROW_SPLIT_H_
