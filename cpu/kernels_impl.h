// The definition of KernelsFor(), for the two sources that instantiate it.
#ifndef SPARSEAGG_CPU_KERNELS_IMPL_H_
#define SPARSEAGG_CPU_KERNELS_IMPL_H_

#include "cpu/dense_plan.h"
#include "cpu/kernels.h"
#include "cpu/lower.h"
#include "cpu/sort_plan.h"
#include "sparse/ops/all.h"

namespace sparseagg {

template <class Op, class V>
std::unique_ptr<CpuPlan> MakePlanOf(const Plan& plan, Parallel& parallel) {
  if (plan.name == "dense") return std::make_unique<DensePlan<Op, V>>(plan.spec, parallel);
  return std::make_unique<SortPlan<Op, V>>(plan.spec, parallel);
}

template <class V>
CpuKernels KernelsFor(std::string_view op) {
  CpuKernels kernels;
  AllOps::With(op, [&](auto tag) {
    using Op = decltype(tag);
    kernels = {&MakePlanOf<Op, V>, &LowerState<Op, V>};
  });
  return kernels;
}

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_KERNELS_IMPL_H_
