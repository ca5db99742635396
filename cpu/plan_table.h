// The plans of the CPU back end, one row each: what the planner may choose, what it costs and how
// it begins. CONTRIBUTING.md has the recipe for another one.
#ifndef SPARSEAGG_CPU_PLAN_TABLE_H_
#define SPARSEAGG_CPU_PLAN_TABLE_H_

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "cpu/kernels/kernels.h"
#include "cpu/parallel.h"
#include "cpu/plan.h"
#include "sparse/planner.h"

namespace sparseagg {

struct CpuPlan {
  std::string_view name;
  bool dense = false;  // the state has a cell for every coordinate of the index space
  // How the entries of every batch are brought together; nullopt: the plan does not depend on it,
  // or the cheaper way is chosen for each batch.
  std::optional<Feed> feed;
  std::unique_ptr<CpuReducer> (*make)(const ReduceSpec& spec, const CpuKernels& kernels,
                                      Parallel& parallel);
  PlanCost (*cost)(const BackendInfo& backend, const ReduceSpec& spec, const Workload& workload);
};

// The last plan suits any workload: it takes no memory for the index space.
std::span<const CpuPlan> CpuPlans();

// REQUIRES: there is a plan of this name.
const CpuPlan& CpuPlanNamed(std::string_view name);
// The plan whose state is dense, and the one that reduces a batch by `feed`.
const CpuPlan& DenseCpuPlan();
const CpuPlan& CpuPlanOf(Feed feed);

// The CostModel of the CPU back end.
PlanCost CpuCost(const BackendInfo& backend, std::string_view plan, const ReduceSpec& spec,
                 const Workload& workload);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_PLAN_TABLE_H_
