// The templates of the CPU back end, behind functions: what cpu_backend.cc needs of one (operator,
// value type).
//
// The instantiations are most of the back end's compile time: kernels_floats.cc and
// kernels_integers.cc share them.
#ifndef SPARSEAGG_CPU_KERNELS_H_
#define SPARSEAGG_CPU_KERNELS_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "cpu/parallel.h"
#include "cpu/plan.h"
#include "sparse/backend.h"
#include "sparse/partial.h"
#include "sparse/planner.h"
#include "sparse/values.h"

namespace sparseagg {

struct CpuKernels {
  // The state of `plan.spec` under the algorithm `plan.name`.
  std::unique_ptr<CpuPlan> (*make_plan)(const Plan& plan, Parallel& parallel) = nullptr;
  // The result of a complete state (cpu/lower.h).
  absl::StatusOr<Aggregate> (*lower)(Partial state, Parallel& parallel) = nullptr;
};

// For values of type V; null members when there is no operator `op`.
template <class V>
CpuKernels KernelsFor(std::string_view op);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_KERNELS_H_
