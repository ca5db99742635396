#include "cpu/plan_table.h"

#include <algorithm>
#include <cstdlib>

#include "cpu/cost_model.h"
#include "cpu/dense/dense_plan.h"
#include "cpu/windowed/sparse_plan.h"

namespace sparseagg {
namespace {

template <class Reducer>
std::unique_ptr<CpuReducer> Make(const ReduceSpec& spec, const CpuKernels& kernels,
                                 Parallel& parallel) {
  return std::make_unique<Reducer>(spec, kernels, parallel);
}

constexpr CpuPlan kPlans[] = {
    {.name = "dense", .dense = true, .feed = {}, .make = &Make<DensePlan>, .cost = &DenseCost},
    {.name = "sweep", .feed = Feed::kSweep, .make = &Make<SparsePlan>, .cost = &SweepCost},
    {.name = "partition",
     .feed = Feed::kPartition,
     .make = &Make<SparsePlan>,
     .cost = &PartitionCost},
    {.name = "rows", .feed = {}, .make = &Make<SparsePlan>, .cost = &RowsCost},
};

template <class Matches>
const CpuPlan& Find(const Matches& matches) {
  const auto* plan = std::find_if(std::begin(kPlans), std::end(kPlans), matches);
  if (plan == std::end(kPlans)) std::abort();
  return *plan;
}

}  // namespace

std::span<const CpuPlan> CpuPlans() { return kPlans; }

const CpuPlan& CpuPlanNamed(std::string_view name) {
  return Find([&](const CpuPlan& plan) { return plan.name == name; });
}

const CpuPlan& DenseCpuPlan() {
  return Find([](const CpuPlan& plan) { return plan.dense; });
}

const CpuPlan& CpuPlanOf(Feed feed) {
  return Find([&](const CpuPlan& plan) { return plan.feed == feed; });
}

PlanCost CpuCost(const BackendInfo& backend, std::string_view plan, const ReduceSpec& spec,
                 const Workload& workload) {
  return CpuPlanNamed(plan).cost(backend, spec, workload);
}

}  // namespace sparseagg
