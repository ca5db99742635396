// min: the smallest value among the contributors that hold the coordinate. Weights are ignored.
//
//   absent coordinate        takes no part; not in the sparse result, 0 in the dense one
//   duplicates in an update  are first summed exactly and rounded once to the value type; if a
//                            checked integer leaves its type this way, the update is refused
//   zero weight              takes part like any other
//   empty update             takes no part
//   empty round              gives an empty tensor
//
// The result is one of the contributors' values; -0 is read as +0.
#ifndef SPARSEAGG_SPARSE_OPS_MIN_H_
#define SPARSEAGG_SPARSE_OPS_MIN_H_

#include "sparse/ops/op.h"

namespace sparseagg {

struct Min {
  static constexpr std::string_view kName = "min";
  static constexpr ValueSlots kValues = ValueSlots::kMin;
  static constexpr RowSlot kRowSlot = RowSlot::kNone;
  static constexpr bool kIsMean = false;

  template <class Exact>
  SPARSEAGG_HOST_DEVICE static double FinalizeFloat(const Exact& value, const Exact&, double,
                                                    FloatFormat) {
    return FromOrderKey(static_cast<int64_t>(value.ToInteger()));
  }
  template <class Exact>
  SPARSEAGG_HOST_DEVICE static Int128 FinalizeInteger(const Exact& value, const Exact&, double) {
    return value.ToInteger();
  }
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_OPS_MIN_H_
