#include "service/engine/partial/row_range.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sparse/partials/slices.h"

namespace sparseagg {
namespace {

__extension__ using Bytes = unsigned __int128;  // 2^63 rows of 2^31 bytes

absl::StatusOr<std::vector<TensorLayout>> ResultLayouts(std::span<const TensorSpec> specs) {
  std::vector<TensorLayout> layouts;
  for (const TensorSpec& spec : specs) {
    SPARSEAGG_ASSIGN_OR_RETURN(const ReduceSpec reduce, MakeReduceSpec(spec));
    layouts.push_back(ResultLayout(reduce));
  }
  return layouts;
}

// The boundary of a slice, or of a tensor, that is closest to `bytes` bytes of a dense result.
RowPosition PositionAt(Bytes bytes, std::span<const TensorLayout> layouts) {
  for (uint32_t tensor = 0; tensor < layouts.size(); ++tensor) {
    const TensorLayout& layout = layouts[tensor];
    const Bytes all = Bytes{layout.num_rows} * layout.row_bytes();
    if (bytes >= all) {
      bytes -= all;
      continue;
    }
    const auto row = static_cast<uint64_t>(bytes / layout.row_bytes());
    const uint64_t slice = (row + kSliceRows / 2) / kSliceRows;
    // A tensor of one slice belongs to the range that has its middle.
    const bool is_end = slice * kSliceRows >= layout.num_rows ||
                        (layout.num_rows <= kSliceRows && 2 * bytes >= all);
    return is_end ? RowPosition{tensor + 1, 0} : RowPosition{tensor, slice * kSliceRows};
  }
  return {static_cast<uint32_t>(layouts.size()), 0};
}

absl::Status CheckPosition(const RowPosition& position, std::span<const TensorSpec> specs) {
  const bool is_end = position.tensor == specs.size() && position.row == 0;
  if (is_end || (position.tensor < specs.size() && position.row % kSliceRows == 0)) {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_ROW_RANGE",
                   absl::StrCat("row ", position.row, " of tensor ", position.tensor, " of ",
                                specs.size(), " is no multiple of ", kSliceRows,
                                " rows of a tensor, and not the end of the last one"));
}

}  // namespace

std::pair<uint64_t, uint64_t> RowsOf(const RowRange& range, size_t tensor, uint64_t num_rows) {
  const RowPosition begin{static_cast<uint32_t>(tensor), 0};
  const RowPosition end{static_cast<uint32_t>(tensor), num_rows};
  const RowPosition from = std::max(range.first, begin);
  const RowPosition to = std::min(range.end, end);
  return from < to ? std::pair(from.row, to.row) : std::pair(uint64_t{0}, uint64_t{0});
}

absl::StatusOr<std::vector<RowRange>> CutRows(std::span<const TensorSpec> specs, size_t parts) {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<TensorLayout> layouts, ResultLayouts(specs));
  Bytes all = 0;
  for (const TensorLayout& layout : layouts) all += Bytes{layout.num_rows} * layout.row_bytes();
  std::vector<RowRange> ranges;
  RowPosition first;
  for (size_t part = 1; part <= parts; ++part) {
    const RowPosition end = part == parts ? RowPosition{static_cast<uint32_t>(specs.size()), 0}
                                          : PositionAt(all / parts * part, layouts);
    if (first < end) ranges.push_back({first, end});
    first = std::max(first, end);
  }
  return ranges;
}

absl::Status CheckRowRange(const RowRange& range, std::span<const TensorSpec> specs) {
  SPARSEAGG_RETURN_IF_ERROR(CheckPosition(range.first, specs));
  SPARSEAGG_RETURN_IF_ERROR(CheckPosition(range.end, specs));
  if (range.first <= range.end) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_ROW_RANGE",
                   "the end of the range of rows is before its beginning");
}

}  // namespace sparseagg
