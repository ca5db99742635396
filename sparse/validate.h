// What must hold of an update before it is counted. All checks of an update come before the first
// change of state.
#ifndef SPARSEAGG_SPARSE_VALIDATE_H_
#define SPARSEAGG_SPARSE_VALIDATE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sparse/types.h"

namespace sparseagg {

// Largest weight of an update of integers: every whole number up to here is exact in f32.
inline constexpr float kIntegerWeightMax = 16777216.0f;  // 2^24

// `error` as that of one update among others: the message begins with `update "ID": `, and metadata
// kUpdateIdFact has the id for programs. OK, and what is about an update without an id, stays as it
// is.
inline constexpr std::string_view kUpdateIdFact = "update_id";
absl::Status OfUpdate(const absl::Status& error, const std::string& update_id);

// A weight is finite and not negative (reason INVALID_WEIGHT).
absl::Status ValidateWeight(float weight);

// Checks decoded entries: rows in range (INDEX_OUT_OF_RANGE), values finite (NON_FINITE_VALUE);
// where the operator uses weights, f64 products finite (PRODUCT_OVERFLOW) and, for integers, a
// whole weight of at most 2^24 (INVALID_WEIGHT); for min and max of checked integers, that the
// duplicates of one row sum up within the type (INTEGER_OVERFLOW). Messages name the tensor and the
// entry. Reads the entries once; changes nothing. Returns how their rows are ordered, for
// StagedUpdate::order.
absl::StatusOr<EntryOrder> ValidateUpdate(const ReduceSpec& spec, const CooView& entries,
                                          float weight);

// The same bit by bit, while the entries are being decoded and still in cache. Thread-compatible.
class UpdateValidator {
 public:
  // The entries behind `entries` may be written later. `spec` must outlive this. INVALID_WEIGHT
  // comes out first, whatever is checked.
  UpdateValidator(const ReduceSpec& spec, const CooView& entries, float weight);

  // All rows are known to be in range and in this order: they are not looked at.
  void TakeOrder(EntryOrder order) { order_ = order; }
  // The first `count` values are known to be finite f32 values: they are not looked at.
  void TakeFinite(uint64_t count) { values_ = std::max(values_, count); }
  // Checks the values [those checked before, end).
  absl::Status CheckValues(uint64_t end);
  // Checks the rest and what needs all of it.
  absl::StatusOr<EntryOrder> Finish();

 private:
  absl::Status CheckRows();

  const ReduceSpec& spec_;
  const CooView entries_;
  const float weight_;  // 1 where the operator does not use it
  absl::Status weight_status_;
  EntryOrder order_ = EntryOrder::kUnknown;  // of rows that have been checked
  uint64_t values_ = 0;                      // checked
};

// How the rows are ordered. One pass over them.
EntryOrder OrderOf(const uint64_t* rows, uint64_t nnz);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_VALIDATE_H_
