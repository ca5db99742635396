// mean_of_contributors: S / W_row with S as in sum and W_row the weight of the contributors that
// hold the row. A rare row is not pulled towards zero by contributors that do not hold it. To count
// those as zero, use weighted_mean.
//
//   absent coordinate        not in the sparse result; 0 in the dense one
//   duplicates in an update  are added to S; the contributor's weight counts once in W_row
//   zero weight              adds nothing; the coordinate is present. If all of its holders have
//                            weight zero, the result is +0
//   empty update             changes nothing but the number of contributors
//   empty round              gives an empty tensor
//
// S and W_row are each rounded once to f64, divided in IEEE f64, and rounded to the value type.
#ifndef SPARSEAGG_SPARSE_OPS_MEAN_OF_CONTRIBUTORS_H_
#define SPARSEAGG_SPARSE_OPS_MEAN_OF_CONTRIBUTORS_H_

#include "sparse/ops/op.h"

namespace sparseagg {

struct MeanOfContributors {
  static constexpr std::string_view kName = "mean_of_contributors";
  static constexpr ValueSlots kValues = ValueSlots::kExactSum;
  static constexpr RowSlot kRowSlot = RowSlot::kWeight;
  static constexpr bool kIsMean = true;

  template <class Exact>
  SPARSEAGG_HOST_DEVICE static double FinalizeFloat(const Exact& value, const Exact& row, double,
                                                    FloatFormat format) {
    return RoundDouble(Quotient(value.Round(kFormatF64), row.Round(kFormatF64)), format);
  }
  template <class Exact>
  SPARSEAGG_HOST_DEVICE static Int128 FinalizeInteger(const Exact& value, const Exact& row,
                                                      double) {
    return RoundToInteger(Quotient(value.Round(kFormatF64), row.Round(kFormatF64)));
  }
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_OPS_MEAN_OF_CONTRIBUTORS_H_
