// The CPU back end: parallel with oneTBB, exact with windowed integers.
//
// Updates are kept as they arrive until a batch is full. The aggregator's plan (cpu/plan.h) then
// folds the batch into a running partial aggregate. So reduction overlaps the arrival of updates,
// and one batch bounds the memory for raw entries.
#ifndef SPARSEAGG_CPU_CPU_BACKEND_H_
#define SPARSEAGG_CPU_CPU_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "sparse/backend.h"

namespace sparseagg {

// Makes the back end. `threads` = 0 means AvailableCpus(); `memory_bytes` = 0 means half of
// AvailableMemoryBytes().
absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(const BackendOptions& options);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_CPU_BACKEND_H_
