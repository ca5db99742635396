// count: the number of contributors that hold the row, as u64, one value per row whatever its
// width.
//
//   absent coordinate        not in the sparse result; 0 in the dense one
//   duplicates in an update  count as one contributor
//   zero weight              is counted: weights are ignored
//   empty update             holds no row
//   empty round              gives an empty tensor
#ifndef SPARSEAGG_SPARSE_OPS_COUNT_H_
#define SPARSEAGG_SPARSE_OPS_COUNT_H_

#include "sparse/ops/op.h"

namespace sparseagg {

struct Count {
  static constexpr std::string_view kName = "count";
  static constexpr ValueSlots kValues = ValueSlots::kNone;
  static constexpr RowSlot kRowSlot = RowSlot::kOne;
  static constexpr bool kIsMean = false;

  template <class Exact>
  SPARSEAGG_HOST_DEVICE static double FinalizeFloat(const Exact&, const Exact& row, double,
                                                    FloatFormat format) {
    return row.Round(format);
  }
  template <class Exact>
  SPARSEAGG_HOST_DEVICE static Int128 FinalizeInteger(const Exact&, const Exact& row, double) {
    return row.ToInteger();
  }
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_OPS_COUNT_H_
