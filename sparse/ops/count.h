// count: the number of contributors that hold the row, as u64, one value a row whatever the row's
// width.
//
//   absent coordinate       not in the sparse result; 0 in the dense one
//   duplicates in an update one contributor
//   zero weight             counts: weights play no part
//   empty update            holds no row
//   empty round             an empty tensor
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
  SPARSEAGG_HOST_DEVICE static double Real(const Exact&, const Exact& row, double,
                                           FloatFormat format) {
    return row.Round(format);
  }
  template <class Exact>
  SPARSEAGG_HOST_DEVICE static Int128 Whole(const Exact&, const Exact& row, double) {
    return row.ToInteger();
  }
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_OPS_COUNT_H_
