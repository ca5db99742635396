// Checks an update before it is counted. All checks of an update come before the first change of
// state.
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

// Attributes `error` to one update among several: puts `update "ID": ` before its message, and the
// id into its metadata under kUpdateIdKey, for programs. Returns `error` unchanged when it is OK
// or the update has no id.
inline constexpr std::string_view kUpdateIdKey = "update_id";
absl::Status AttributeToUpdate(const absl::Status& error, const std::string& update_id);

// Returns INVALID_ARGUMENT (INVALID_WEIGHT) unless the weight is finite and not negative.
absl::Status ValidateWeight(float weight);

// Checks decoded entries and returns the order of their rows, for StagedUpdate::order. Reads the
// entries once; changes nothing. Returns INVALID_ARGUMENT, naming the tensor and the entry:
// * INDEX_OUT_OF_RANGE when a row is out of range;
// * NON_FINITE_VALUE when a value is NaN or infinite;
// * PRODUCT_OVERFLOW, where the operator uses weights, when an f64 product is not finite;
// * INVALID_WEIGHT when ValidateWeight() refuses the weight or, for integers where the operator
//   uses weights, when it is not a whole number of at most 2^24;
// * INTEGER_OVERFLOW, for min and max of checked integers, when the duplicates of one row sum up
//   beyond the type.
absl::StatusOr<EntryOrder> ValidateUpdate(const ReduceSpec& spec, const CooView& entries,
                                          float weight);

// The same in steps, while the entries are being decoded and are still in cache. Thread-compatible.
class UpdateValidator {
 public:
  // The entries that `entries` refers to may be written later. `spec` must outlive the validator.
  // The first check, whichever it is, returns INVALID_WEIGHT if the weight is refused.
  UpdateValidator(const ReduceSpec& spec, const CooView& entries, float weight);

  // Skips the check of the rows: all of them are known to be in range and in this order.
  void SetKnownOrder(EntryOrder order) { order_ = order; }
  // Skips the check of the first `count` values: they are known to be finite f32 values.
  void SetKnownFinite(uint64_t count) { values_ = std::max(values_, count); }
  // Checks the values from the first unchecked one up to `end`, exclusive.
  absl::Status CheckValues(uint64_t end);
  // Checks the remaining entries, and what requires all of them.
  absl::StatusOr<EntryOrder> Finish();

 private:
  absl::Status CheckRows();

  const ReduceSpec& spec_;
  const CooView entries_;
  const float weight_;  // 1 where the operator does not use it
  absl::Status weight_status_;
  EntryOrder order_ = EntryOrder::kUnknown;  // kUnknown until the rows are checked
  uint64_t values_ = 0;                      // number of values checked, from the front
};

// Returns how the rows are ordered, in one pass over them.
EntryOrder OrderOf(const uint64_t* rows, uint64_t nnz);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_VALIDATE_H_
