// Turns exact slots into results, every value rounded once.
#ifndef SPARSEAGG_CPU_LOWER_ROWS_H_
#define SPARSEAGG_CPU_LOWER_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "sparse/partial.h"
#include "sparse/slot_math.h"
#include "sparse/wide_integer.h"

namespace sparseagg {

// The side entries of one row.
using SideRange = std::span<const SideEntry>;

// Slot `column` of row `i` of the state and its side entries, in one wide integer.
inline WideInteger ExactSlot(const Partial& state, size_t i, uint32_t width, uint32_t column,
                             SideRange side) {
  WideInteger sum;
  sum.AddScaled(state.slots[i * width + column], state.lsb);
  for (const SideEntry& entry : side) sum.AddScaled(entry.significand, entry.exponent);
  return sum;
}

// The entries of `column` within those of its row.
inline SideRange SideOfColumn(SideRange side, uint32_t column) {
  const auto [begin, end] =
      std::equal_range(side.begin(), side.end(), SideEntry{0, column, 0, 0},
                       [](const SideEntry& a, const SideEntry& b) { return a.column < b.column; });
  return {begin, end};
}

// See CpuKernels::lower_rows.
template <class Op, class V>
absl::Status LowerRows(const Partial& state, double total_weight, size_t begin, size_t end,
                       void* values, uint64_t& infinite_values) {
  const uint32_t width = SlotsPerRow(state.spec);
  const uint32_t result_width = ResultLayout(state.spec).row_width;
  const IntegerOverflow overflow = state.spec.integer_overflow;
  auto* out = static_cast<ResultValue<Op, V>*>(values) + begin * result_width;
  auto side_at =
      std::lower_bound(state.side.begin(), state.side.end(), begin < end ? state.rows[begin] : 0,
                       [](const SideEntry& entry, uint64_t row) { return entry.row < row; });
  for (size_t i = begin; i < end; ++i) {
    const uint64_t row = state.rows[i];
    const auto side_begin = side_at;
    while (side_at != state.side.end() && side_at->row == row) ++side_at;
    const SideRange side(side_begin, side_at);
    const SlotValue row_slot{state.slots[i * width + width - 1], state.lsb};
    for (uint32_t c = 0; c < result_width; ++c, ++out) {
      Lowered lowered;
      if (side.empty()) {
        const SlotValue value{state.slots[i * width + c], state.lsb};
        lowered = LowerValue<Op, V>(value, row_slot, total_weight, overflow, out);
      } else {
        const WideInteger value = ExactSlot(state, i, width, c, SideOfColumn(side, c));
        const WideInteger holders =
            Op::kRowSlot == RowSlot::kNone
                ? value
                : ExactSlot(state, i, width, width - 1, SideOfColumn(side, width - 1));
        lowered = LowerValue<Op, V>(value, holders, total_weight, overflow, out);
      }
      if (lowered == Lowered::kOverflow) return IntegerOverflowError(state.spec, row, c);
      infinite_values += lowered == Lowered::kInfinite ? 1 : 0;
    }
  }
  return absl::OkStatus();
}

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_LOWER_ROWS_H_
