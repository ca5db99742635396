// What must hold of an update before it is counted. All checks of an update come before the first
// change of state.
#ifndef SPARSEAGG_SPARSE_VALIDATE_H_
#define SPARSEAGG_SPARSE_VALIDATE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sparse/types.h"

namespace sparseagg {

// Largest weight of an update of integers: every whole number up to here is exact in f32.
inline constexpr float kIntegerWeightMax = 16777216.0f;  // 2^24

// A weight is finite and not negative (reason INVALID_WEIGHT).
absl::Status ValidateWeight(float weight);

// Checks decoded entries: rows in range (INDEX_OUT_OF_RANGE), values finite (NON_FINITE_VALUE), f64
// products finite (PRODUCT_OVERFLOW), for integers a whole weight of at most 2^24 (INVALID_WEIGHT)
// and, for min and max of checked integers, that the duplicates of one row sum up within the type
// (INTEGER_OVERFLOW). Messages name the tensor and the entry. Reads the entries once; changes
// nothing. Returns how their rows are ordered, for StagedUpdate::order.
absl::StatusOr<EntryOrder> ValidateUpdate(const ReduceSpec& spec, const CooView& entries,
                                          float weight);

// How the rows are ordered. One pass over them.
EntryOrder OrderOf(const uint64_t* rows, uint64_t nnz);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_VALIDATE_H_
