// Ranges of the rows of a round, over all of its tensors: what an owner has of a result that no
// node holds as a whole.
#ifndef SPARSEAGG_SERVICE_ENGINE_PARTIAL_ROW_RANGE_H_
#define SPARSEAGG_SERVICE_ENGINE_PARTIAL_ROW_RANGE_H_

#include <compare>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sparse/types.h"

namespace sparseagg {

// A place before a row, in the order of the tensors and then of the flattened rows.
struct RowPosition {
  uint32_t tensor = 0;  // in the specification
  uint64_t row = 0;

  auto operator<=>(const RowPosition&) const = default;  // NOLINT(modernize-use-nullptr)
};

// The rows from `first` on that are before `end`.
struct RowRange {
  RowPosition first;
  RowPosition end;

  bool empty() const { return first >= end; }
  bool operator==(const RowRange&) const = default;
};

// No row of any tensor: what is left of a partial aggregate is the updates that it covers.
inline constexpr RowRange kNoRows{};

// Returns the rows of tensor `tensor`, which has `num_rows`, that are in the range, as [first,
// end).
std::pair<uint64_t, uint64_t> RowsOf(const RowRange& range, size_t tensor, uint64_t num_rows);

// Divides all rows into at most `parts` ranges that are not empty and have about the same number of
// bytes in a dense result. They are cut between the slices of a partial aggregate
// (sparse/partials/slices.h). A pure function: the cut does not depend on the updates. Errors:
// those of MakeReduceSpec().
absl::StatusOr<std::vector<RowRange>> CutRows(std::span<const TensorSpec> specs, size_t parts);

// Returns INVALID_ARGUMENT (INVALID_ROW_RANGE) unless the range lies between slices of the tensors
// and its end is not before its beginning.
absl::Status CheckRowRange(const RowRange& range, std::span<const TensorSpec> specs);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_PARTIAL_ROW_RANGE_H_
