// One reduction of many updates, and of the sums of earlier ones, into sums or results in ascending
// order of rows. Two ways to bring the entries of a window together:
//
//   sweep      every update is sorted; a window moves over the index space, and each update's
//              cursor delivers its entries of the window
//   partition  updates are in any order; one pass distributes their entries over the windows first
#ifndef SPARSEAGG_CPU_WINDOWED_SPARSE_REDUCTION_H_
#define SPARSEAGG_CPU_WINDOWED_SPARSE_REDUCTION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "cpu/kernels/kernels.h"
#include "cpu/parallel.h"
#include "cpu/plan.h"
#include "cpu/state/entries.h"
#include "cpu/windowed/canonical.h"
#include "cpu/windowed/ranged_output.h"
#include "sparse/types.h"

namespace sparseagg {

// Reduces `batch` and `run`. Releases the memory of the batch's updates as it proceeds. Returns
// OUT_OF_RANGE if a result does not fit its type. Throws std::bad_alloc when memory runs out.
absl::StatusOr<SparseSums> ReduceSparse(const ReduceSpec& spec, const CpuKernels& kernels,
                                        Parallel& parallel, Feed feed,
                                        std::vector<PendingUpdate>& batch, const CellRun& run,
                                        const Finalization& finalization);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_SPARSE_REDUCTION_H_
