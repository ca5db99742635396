// Turns cells into results: every sum is rounded once. Compiled once for every instruction set, in
// its namespace (Highway's foreach_target); the guard therefore lets it in again each time.
#if defined(SPARSEAGG_CPU_KERNELS_RESULTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARSEAGG_CPU_KERNELS_RESULTS_INL_H_
#undef SPARSEAGG_CPU_KERNELS_RESULTS_INL_H_
#else
#define SPARSEAGG_CPU_KERNELS_RESULTS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cpu/kernels/kernels.h"
#include "cpu/kernels/simd-inl.h"
#include "cpu/state/cells.h"
#include "cpu/state/exact_cell.h"
#include "sparse/slot_math.h"

HWY_BEFORE_NAMESPACE();
namespace sparseagg {
namespace HWY_NAMESPACE {  // NOLINT(google-readability-namespace-comments)
namespace hn = hwy::HWY_NAMESPACE;

// Rounds sums and weighted means of f32 and f64 without side entries, as vectors. Returns how many
// values it has written; the caller handles the rest.
template <class Op, class V>
HWY_INLINE size_t FinalizeVectors(const double* cells, size_t n, double total_weight, V* out,
                                  uint64_t& infinite_values) {
  if constexpr ((std::is_same_v<V, float> || std::is_same_v<V, double>)&&Op::kValues ==
                    ValueSlots::kExactSum &&
                Op::kRowSlot == RowSlot::kNone) {
    const DoubleTag d;
    const hn::Rebind<V, DoubleTag> dv;
    // Highway without vectors demotes numbers beyond the range to the largest number.
    if constexpr (HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128) return 0;
    const auto divisor = hn::Set(d, total_weight);
    if (Op::kIsMean && total_weight == 0.0) return 0;
    const auto largest = hn::Set(dv, std::numeric_limits<V>::max());
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      auto sum = hn::LoadU(d, cells + i);
      if (Op::kIsMean) sum = hn::Div(sum, divisor);
      hn::Vec<hn::Rebind<V, DoubleTag>> result;
      if constexpr (std::is_same_v<V, float>) {
        result = hn::DemoteTo(dv, sum);
      } else {
        result = sum;
      }
      result = hn::Add(result, hn::Zero(dv));  // a tiny negative number rounds to +0.0
      hn::StoreU(result, dv, out + i);
      infinite_values += hn::CountTrue(dv, hn::Gt(hn::Abs(result), largest));
    }
    return i;
  } else {
    return 0;
  }
}

template <class Op, class V>
struct ResultKernels {
  using C = Cells<Op::kValues, Op::kRowSlot, V>;
  using R = ResultValue<Op, V>;

  static auto ExactValue(const std::byte* values, size_t at, SideRange side) {
    if constexpr (!C::kHasValues) {
      return ExactInteger{0};
    } else {
      const auto cell = reinterpret_cast<const typename C::Value*>(values)[at];
      if constexpr (C::kInexactValues) {
        return ExactSum{cell, side};
      } else if constexpr (C::kFloating) {
        return ExactExtreme{cell};
      } else {
        return ExactInteger{cell};
      }
    }
  }

  // FinalizeValue() takes value and row of one type; this type holds a double or an integer.
  struct Either {
    double cell;
    Int128 integer;
    SideRange side;
    double Round(FloatFormat format) const {
      if constexpr (C::kFloating && C::kHasValues) return ExactSum{cell, side}.Round(format);
      return RoundScaled(integer, 0, format);
    }
    Int128 ToInteger() const { return integer; }
  };

  static Either RowValue(const std::byte* row_cells, size_t at, SideRange side) {
    if constexpr (!C::kHasRow) {
      return {0.0, 0, {}};
    } else {
      const auto cell = reinterpret_cast<const typename C::Row*>(row_cells)[at];
      if constexpr (C::kInexactRow) return {cell, 0, side};
      if constexpr (!C::kInexactRow) return {0.0, cell, {}};
    }
  }

  static Either Value(const std::byte* values, size_t at, SideRange side) {
    const auto exact = ExactValue(values, at, side);
    if constexpr (C::kInexactValues) {
      return {exact.cell, 0, exact.side};
    } else if constexpr (C::kFloating && C::kHasValues) {
      return {exact.value, exact.ToInteger(), {}};
    } else {
      return {0.0, exact.value, {}};
    }
  }

  static SideRange OfColumn(SideRange side, uint32_t column) {
    if (side.empty()) return side;
    const auto [begin, end] = std::equal_range(
        side.begin(), side.end(), SideEntry{0, column, 0, 0},
        [](const SideEntry& a, const SideEntry& b) { return a.column < b.column; });
    return {begin, end};
  }

  static absl::Status Finalize(const ReduceSpec& spec, double total_weight, const CellBlock& block,
                               size_t n, SideRange side, void* out, uint64_t& infinite_values) {
    const uint32_t width = spec.layout.row_width;
    const uint32_t result_width = C::kHasValues ? width : 1;
    auto* results = static_cast<R*>(out);
    const size_t size = n * result_width;
    size_t i = 0;
    auto side_at = side.begin();
    for (size_t row = 0; row < n;) {
      // Rows up to the next one that has side entries are rounded as vectors.
      while (side_at != side.end() && side_at->row < block.rows[row]) ++side_at;
      if constexpr (C::kInexactValues) {
        const size_t next = side_at == side.end() ? n : block.IndexOf(side_at->row, row, n);
        const size_t end = next * result_width;
        i += FinalizeVectors<Op, V>(reinterpret_cast<const double*>(block.values) + i, end - i,
                                    total_weight, results + i, infinite_values);
        if (i == size) break;
        row = i / result_width;
      }
      auto end = side_at;
      while (end != side.end() && end->row == block.rows[row]) ++end;
      const SideRange of_row(side_at, end);
      const Either row_value = RowValue(block.row_cells, row, OfColumn(of_row, width));
      for (; i < (row + 1) * result_width; ++i) {
        const auto column = static_cast<uint32_t>(i - row * result_width);
        const Finalized finalized =
            FinalizeValue<Op, V>(Value(block.values, i, OfColumn(of_row, column)), row_value,
                                 total_weight, spec.integer_overflow, results + i);
        if (finalized == Finalized::kOverflow) {
          return IntegerOverflowError(spec, block.rows[row], column);
        }
        infinite_values += finalized == Finalized::kInfinite ? 1 : 0;
      }
      ++row;
    }
    return absl::OkStatus();
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace sparseagg
HWY_AFTER_NAMESPACE();

#endif  // SPARSEAGG_CPU_KERNELS_RESULTS_INL_H_
