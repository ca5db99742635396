// sum: for every coordinate, S = sum of w * x over all entries; the result is S rounded once.
//
//   absent coordinate        not in the sparse result; 0 in the dense one
//   duplicates in an update  are added like any other entries
//   zero weight              adds nothing; the coordinate is present, as +0 if nothing else is
//                            added
//   empty update             counts as a contributor, changes no coordinate
//   empty round              gives an empty tensor
#ifndef SPARSEAGG_SPARSE_OPS_SUM_H_
#define SPARSEAGG_SPARSE_OPS_SUM_H_

#include "sparse/ops/op.h"

namespace sparseagg {

struct Sum {
  static constexpr std::string_view kName = "sum";
  static constexpr ValueSlots kValues = ValueSlots::kExactSum;
  static constexpr RowSlot kRowSlot = RowSlot::kNone;
  static constexpr bool kIsMean = false;

  template <class Exact>
  SPARSEAGG_HOST_DEVICE static double FinalizeFloat(const Exact& value, const Exact&, double,
                                                    FloatFormat format) {
    return value.Round(format);
  }
  template <class Exact>
  SPARSEAGG_HOST_DEVICE static Int128 FinalizeInteger(const Exact& value, const Exact&, double) {
    return value.ToInteger();
  }
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_OPS_SUM_H_
