// weighted_mean: S / W with S as in sum and W the total weight of the round. A contributor that
// does not hold a coordinate counts there as zero: this is federated averaging of updates whose
// untouched rows are zero. To divide by the weight of those that hold the coordinate, use
// mean_of_contributors.
//
//   absent coordinate        not in the sparse result; 0 in the dense one
//   duplicates in an update  are added to S; the contributor's weight counts once in W
//   zero weight              adds nothing to S or W; the coordinate is present. If all weights are
//                            zero, the result is +0
//   empty update             adds its weight to W
//   empty round              gives an empty tensor
//
// S and W are each rounded once to f64, divided in IEEE f64, and rounded to the value type
// (integers: nearest, ties to even).
#ifndef SPARSEAGG_SPARSE_OPS_WEIGHTED_MEAN_H_
#define SPARSEAGG_SPARSE_OPS_WEIGHTED_MEAN_H_

#include "sparse/ops/op.h"

namespace sparseagg {

struct WeightedMean {
  static constexpr std::string_view kName = "weighted_mean";
  static constexpr ValueSlots kValues = ValueSlots::kExactSum;
  static constexpr RowSlot kRowSlot = RowSlot::kNone;
  static constexpr bool kIsMean = true;

  template <class Exact>
  SPARSEAGG_HOST_DEVICE static double FinalizeFloat(const Exact& value, const Exact&,
                                                    double total_weight, FloatFormat format) {
    return RoundDouble(Quotient(value.Round(kFormatF64), total_weight), format);
  }
  template <class Exact>
  SPARSEAGG_HOST_DEVICE static Int128 FinalizeInteger(const Exact& value, const Exact&,
                                                      double total_weight) {
    return RoundToInteger(Quotient(value.Round(kFormatF64), total_weight));
  }
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_OPS_WEIGHTED_MEAN_H_
