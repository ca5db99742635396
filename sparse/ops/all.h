// The list of operators. A new operator is one header of this folder and one entry here.
#ifndef SPARSEAGG_SPARSE_OPS_ALL_H_
#define SPARSEAGG_SPARSE_OPS_ALL_H_

#include <array>
#include <string_view>
#include <type_traits>

#include "base/host_device.h"
#include "sparse/ops/count.h"
#include "sparse/ops/max.h"
#include "sparse/ops/mean_of_contributors.h"
#include "sparse/ops/min.h"
#include "sparse/ops/sum.h"
#include "sparse/ops/weighted_mean.h"

namespace sparseagg {

template <ReduceOp... Ops>
struct OpList {
  static constexpr std::array<std::string_view, sizeof...(Ops)> kNames = {Ops::kName...};

  // Calls f(Op{}) for the operator called `name`. Returns false when there is none.
  template <class F>
  static bool With(std::string_view name, F&& f) {
    return ((Ops::kName == name && (f(Ops{}), true)) || ...);
  }
};

using AllOps = OpList<Sum, WeightedMean, MeanOfContributors, Count, Min, Max>;

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_OPS_ALL_H_
