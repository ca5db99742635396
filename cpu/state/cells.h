// Cells: the accumulators of coordinates on a CPU.
//
//   floating sums   a double. Each addition keeps its rounding error (two-sum: Knuth, The Art of
//                   Computer Programming 2, 4.2.2, theorem C), and an error that is not zero goes
//                   to the side table: cell + side entries is the exact sum, always.
//   integer sums    128 bits
//   min, max        the extreme value so far
//   row cells       sum of the holders' weights (a double with its errors kept, or an integer), or
//                   their number
//
// Every kind has a value that no sum takes. It marks a coordinate that no update holds. For
// floating sums it is -0.0: addends are never -0.0, and so no sum is.
#ifndef SPARSEAGG_CPU_STATE_CELLS_H_
#define SPARSEAGG_CPU_STATE_CELLS_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "sparse/ops/op.h"
#include "sparse/partial.h"
#include "sparse/slot_math.h"
#include "sparse/values.h"

namespace sparseagg {

struct NoCell {};

// Addends of at least this magnitude go to the side table whole, so that no sum of kAddendsMax
// others overflows.
inline constexpr double kAddendLimit = kCellLimit;

// cell += addend; returns the rounding error.
inline double AddExact(double& cell, double addend) {
  const double before = cell;
  const double sum = before + addend;
  const double taken = sum - before;
  cell = sum;
  return (before - (sum - taken)) + (addend - taken);
}

template <ValueSlots kValues, RowSlot kRow, class V>
struct Cells {
  static constexpr bool kFloating = ValueTraits<V>::kFloating;
  static constexpr bool kHasValues = kValues != ValueSlots::kNone;
  static constexpr bool kHasRow = kRow != RowSlot::kNone;
  // Sums of doubles, which need a side table.
  static constexpr bool kInexactValues = kValues == ValueSlots::kExactSum && kFloating;
  static constexpr bool kInexactRow = kRow == RowSlot::kWeight && kFloating;

  using Value =
      std::conditional_t<kHasValues, std::conditional_t<kFloating, double, Int128>, NoCell>;
  using Row = std::conditional_t<kHasRow, std::conditional_t<kInexactRow, double, int64_t>, NoCell>;

  static constexpr size_t kValueBytes = kHasValues ? sizeof(Value) : 0;
  static constexpr size_t kRowBytes = kHasRow ? sizeof(Row) : 0;

  static constexpr Value EmptyValue() {
    if constexpr (!kHasValues) {
      return {};
    } else if constexpr (kValues == ValueSlots::kExactSum) {
      if constexpr (kFloating) return -0.0;
      if constexpr (!kFloating) return static_cast<Int128>(UInt128{1} << 127);
    } else if constexpr (kFloating) {
      return std::numeric_limits<double>::quiet_NaN();  // infinities may be extremes
    } else {
      constexpr Int128 kLargest = static_cast<Int128>(~UInt128{0} >> 1);
      return kValues == ValueSlots::kMin ? kLargest : -kLargest;
    }
  }
  static constexpr Row EmptyRow() {
    if constexpr (kInexactRow) return -0.0;
    return Row{};
  }

  static bool IsEmpty(const Value& cell) {
    if constexpr (!kHasValues) {
      return false;
    } else if constexpr (kInexactValues) {
      return BitCast<uint64_t>(cell) == uint64_t{1} << 63;
    } else if constexpr (kFloating) {
      return std::isnan(cell);
    } else {
      return cell == EmptyValue();
    }
  }

  // Returns what an entry adds. -0.0 becomes +0.0.
  static Value Lift(V value, float weight) {
    if constexpr (kValues == ValueSlots::kExactSum) {
      if constexpr (kFloating) {
        return static_cast<double>(std::fabs(weight)) * Widen(value) + 0.0;
      } else {
        return sparseagg::Lift(value, std::fabs(weight));
      }
    } else if constexpr (kFloating) {
      return Widen(value) + 0.0;
    } else {
      return static_cast<Int128>(value);
    }
  }

  // The same, limited to what a cell can hold: a larger addend goes to `side`, and 0 is returned.
  template <class Side>
  static Value LiftChecked(V value, float weight, uint64_t row, uint32_t column, Side& side) {
    Value lifted = Lift(value, weight);
    if constexpr (kInexactValues && std::is_same_v<V, double>) {
      if (!(std::fabs(lifted) < kAddendLimit)) {
        side.Push(row, column, lifted);
        return 0.0;
      }
    }
    return lifted;
  }

  // Returns what an entry adds to its row's cell.
  static Row LiftRow(float weight) {
    const bool first = !std::signbit(weight);
    if constexpr (!kHasRow) {
      return {};
    } else if constexpr (kRow == RowSlot::kOne) {
      return first ? 1 : 0;
    } else {
      return first ? static_cast<Row>(weight) : Row{0};
    }
  }

  // Joins `addend` into `cell`; the rounding error goes to `side`.
  template <class Side>
  static void Join(Value& cell, Value addend, uint64_t row, uint32_t column, Side& side) {
    if constexpr (kInexactValues) {
      side.Push(row, column, AddExact(cell, addend));
    } else if constexpr (kValues == ValueSlots::kExactSum) {
      cell = IsEmpty(cell) ? addend : cell + addend;
    } else if constexpr (kValues == ValueSlots::kMin) {
      cell = cell <= addend ? cell : addend;  // an empty cell is NaN: the comparison is false
    } else {
      cell = cell >= addend ? cell : addend;
    }
  }
  template <class Side>
  static void JoinRow(Row& cell, Row addend, uint64_t row, uint32_t column, Side& side) {
    if constexpr (kInexactRow) {
      side.Push(row, column, AddExact(cell, addend));
    } else if constexpr (kHasRow) {
      cell += addend;
    }
  }
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_STATE_CELLS_H_
