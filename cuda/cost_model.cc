#include "cuda/cost_model.h"

#include "sparse/partial.h"

namespace sparseagg::gpu {

PlanCost CudaCost(const BackendInfo&, std::string_view, const ReduceSpec& spec, const Workload&) {
  PlanCost cost;
  cost.entry_bytes =
      2 * sizeof(uint64_t) + spec.layout.row_bytes() + SlotsPerRow(spec) * sizeof(Int128);
  return cost;
}

}  // namespace sparseagg::gpu
