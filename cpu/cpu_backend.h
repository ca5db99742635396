// The CPU back end: parallel with oneTBB, exact with windowed integers.
//
// Updates are kept as they come until a batch is full, then folded into a running partial aggregate
// by the aggregator's plan (cpu/plan.h); so reduction overlaps the arrival of updates, and memory
// for raw entries is bounded by a batch.
#ifndef SPARSEAGG_CPU_CPU_BACKEND_H_
#define SPARSEAGG_CPU_CPU_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "sparse/backend.h"

namespace sparseagg {

// threads 0: AvailableCpus(). memory_bytes 0: half of AvailableMemoryBytes().
absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(const BackendOptions& options);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_CPU_BACKEND_H_
