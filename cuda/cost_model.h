// What the plans of the CUDA back end cost. Pure.
#ifndef SPARSEAGG_CUDA_COST_MODEL_H_
#define SPARSEAGG_CUDA_COST_MODEL_H_

#include <string_view>

#include "sparse/planner.h"

namespace sparseagg::gpu {

PlanCost CudaCost(const BackendInfo& backend, std::string_view plan, const ReduceSpec& spec,
                  const Workload& workload);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_COST_MODEL_H_
