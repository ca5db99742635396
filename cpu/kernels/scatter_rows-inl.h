// Adds rows of several values to a window with a cell for every coordinate. Compiled once for every
// instruction set: see simd-inl.h.
#if defined(SPARSEAGG_CPU_KERNELS_SCATTER_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARSEAGG_CPU_KERNELS_SCATTER_ROWS_INL_H_
#undef SPARSEAGG_CPU_KERNELS_SCATTER_ROWS_INL_H_
#else
#define SPARSEAGG_CPU_KERNELS_SCATTER_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu/kernels/kernels.h"
#include "cpu/kernels/rows-inl.h"
#include "cpu/kernels/simd-inl.h"
#include "cpu/kernels/speculative-inl.h"
#include "cpu/state/cells.h"
#include "cpu/state/side_table.h"

HWY_BEFORE_NAMESPACE();
namespace sparseagg {
namespace HWY_NAMESPACE {  // NOLINT(google-readability-namespace-comments)

template <ValueSlots kValues, RowSlot kRow, class V>
struct ScatterRowsKernels : RowKernels<kValues, kRow, V> {
  using Base = RowKernels<kValues, kRow, V>;
  using C = typename Base::C;
  using Base::Advance;
  using Base::EntryValues;
  using Base::kBytesAhead;
  using Base::Rows;
  using Base::Values;
  using Base::WeightOf;

  // A part of a cursor: entries [begin, end) of the `size` that are added, the cursor that comes
  // next, if any, and how many rows ahead values are prefetched.
  struct Part {
    const Cursor& cursor;
    size_t begin;
    size_t end;
    size_t size;
    const Cursor* next;
    size_t rows_ahead;
  };

  // Most cache lines of the next cursor's rows that are prefetched: they are searched before its
  // values are added.
  static constexpr size_t kLinesOfRowsMax = 32;

  static void ScatterRows(Cursor& cursor, uint64_t limit, uint32_t width, Columns columns,
                          const Cursor* next, const CellWindow& window, SideTable& side) {
    Part part = PartBelow(cursor, limit, width, next);
    const size_t size = part.size;
    const size_t most = std::max<size_t>(1, kSpeculativeCells / (columns.end - columns.begin));
    for (size_t begin = 0; begin < size; begin += most) {
      part.begin = begin;
      part.end = std::min(size, begin + most);
      if constexpr (kSpeculatesInGroups<C, V>) {
        for (uint32_t c = columns.begin; c < columns.end; c += kSpeculativeCells) {
          const Columns some{c, std::min<uint32_t>(columns.end, c + kSpeculativeCells)};
          AddRowsSpeculatively(part, width, some, window, side);
        }
      } else {
        AddRows(part, width, columns, window, side);
      }
    }
    Advance(cursor, size, width);
  }

  // Returns the cursor's entries below `limit`, and prefetches the rows of the next cursor.
  static HWY_INLINE Part PartBelow(const Cursor& cursor, uint64_t limit, uint32_t width,
                                   const Cursor* next) {
    const size_t size = cursor.SizeBelow(limit);
    if (next != nullptr) PrefetchEntries(*next, std::min(size / 8 + 2, kLinesOfRowsMax), 0);
    return {cursor, 0, size, size, next, std::max<size_t>(1, kBytesAhead / (width * sizeof(V)))};
  }

  // Returns the values that are added about kBytesAhead after those of entry i, in this cursor or
  // in the next; null if none are known.
  static HWY_INLINE const V* ValuesAhead(const Part& part, size_t i, uint32_t width) {
    const size_t ahead = i + part.rows_ahead;
    if (ahead < part.size) return EntryValues(part.cursor) + ahead * width;
    if (part.next == nullptr || ahead - part.size >= part.next->size()) return nullptr;
    return EntryValues(*part.next) + (ahead - part.size) * width;
  }

  static HWY_INLINE void AddRows(const Part& part, uint32_t width, Columns columns,
                                 const CellWindow& window, SideTable& side) {
    for (size_t i = part.begin; i < part.end; ++i) {
      const uint64_t row = part.cursor.row[i];
      const float weight = WeightOf(part.cursor, i);
      if constexpr (C::kHasValues) {
        Base::AddRow(row, EntryValues(part.cursor) + i * width, ValuesAhead(part, i, width), weight,
                     columns, Values(window.values) + (row - window.begin) * width, side);
      }
      // The row's own cell belongs to the task that has the row's first column.
      if constexpr (C::kHasRow) {
        if (columns.begin == 0) {
          C::JoinRow(Rows(window.row_cells)[row - window.begin], C::LiftRow(weight), row, width,
                     side);
        }
      }
    }
  }

  // The same, speculatively where that pays. REQUIRES: at most kSpeculativeCells cells.
  static HWY_INLINE void AddRowsSpeculatively(const Part& part, uint32_t width, Columns columns,
                                              const CellWindow& window, SideTable& side) {
    const size_t size = columns.end - columns.begin;
    const auto add_checked = [&] { AddRows(part, width, columns, window, side); };
    if ((part.end - part.begin) * size < kSpeculativeCellsMin || !ShouldSpeculate(side)) {
      return add_checked();
    }
    HWY_ALIGN double log[kSpeculativeCells];
    const auto cells_of = [&](size_t i) {
      return Values(window.values) + (part.cursor.row[i] - window.begin) * width;
    };
    const auto add = [&] {
      for (size_t i = part.begin; i < part.end; ++i) {
        Base::template AddRowSpeculatively<true>(
            EntryValues(part.cursor) + i * width, ValuesAhead(part, i, width),
            WeightOf(part.cursor, i), columns, cells_of(i), log + (i - part.begin) * size);
      }
    };
    const auto undo = [&] {
      for (size_t i = part.end; i-- > part.begin;) {
        std::copy_n(log + (i - part.begin) * size, size, cells_of(i) + columns.begin);
      }
    };
    AddSpeculatively(side, add, undo, add_checked);
  }

  // The speculative form of ScatterRows() for all columns: see CpuKernels.
  static bool ScatterRowsSpeculatively(Cursor& cursor, uint64_t limit, uint32_t width,
                                       const Cursor* next, const CellWindow& window) {
    const Part part = PartBelow(cursor, limit, width, next);
    for (size_t i = 0; i < part.size; ++i) {
      Base::template AddRowSpeculatively<false>(
          EntryValues(cursor) + i * width, ValuesAhead(part, i, width), WeightOf(cursor, i),
          {0, width}, Values(window.values) + (cursor.row[i] - window.begin) * width, nullptr);
    }
    Advance(cursor, part.size, width);
    return !AnyRounded();
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace sparseagg
HWY_AFTER_NAMESPACE();

#endif  // SPARSEAGG_CPU_KERNELS_SCATTER_ROWS_INL_H_
