// Kernels of windows whose entries are packed, sorted by row, and summed run by run. Compiled once
// for every instruction set: see simd-inl.h.
#if defined(SPARSEAGG_CPU_KERNELS_SORTED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARSEAGG_CPU_KERNELS_SORTED_INL_H_
#undef SPARSEAGG_CPU_KERNELS_SORTED_INL_H_
#else
#define SPARSEAGG_CPU_KERNELS_SORTED_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu/kernels/kernels.h"
#include "cpu/kernels/rows-inl.h"
#include "cpu/kernels/speculative-inl.h"
#include "cpu/state/cells.h"
#include "cpu/state/side_table.h"
#include "cpu/state/tuning.h"

HWY_BEFORE_NAMESPACE();
namespace sparseagg {
namespace HWY_NAMESPACE {  // NOLINT(google-readability-namespace-comments)
namespace hn = hwy::HWY_NAMESPACE;

template <ValueSlots kValues, RowSlot kRow, class V>
struct SortedKernels : RowKernels<kValues, kRow, V> {
  using Base = RowKernels<kValues, kRow, V>;
  using C = typename Base::C;
  using ValueCell = typename Base::ValueCell;
  using RowCell = typename Base::RowCell;
  using Base::Advance;
  using Base::AdvanceRun;
  using Base::EntryValues;
  using Base::JoinRows;
  using Base::Rows;
  using Base::Values;
  using Base::WeightOf;

  static bool Pack(Cursor& cursor, uint64_t limit, uint32_t width, PackedWindow& packed,
                   SideTable& side) {
    const size_t size = std::min(cursor.size(), packed.capacity - packed.size);
    const uint64_t* HWY_RESTRICT row = cursor.row;
    const V* HWY_RESTRICT values = EntryValues(cursor);
    uint64_t* HWY_RESTRICT keys = packed.keys.data() + packed.size;
    const KeyForm form = packed;  // a copy: a store of a key could change `packed`
    size_t done = 0;
    for (; done < size && row[done] < limit; ++done) {
      const size_t position = packed.size + done;
      keys[done] = form.KeyOf(row[done], position);
      if (form.drop > 0) packed.rows[position] = row[done];
      const float weight = WeightOf(cursor, done);
      if (width == 1) {
        if constexpr (C::kHasValues) {
          Values(packed.values.data())[position] =
              C::LiftChecked(values[done], weight, row[done], 0, side);
        }
        if constexpr (C::kHasRow) Rows(packed.row_cells.data())[position] = C::LiftRow(weight);
      } else {
        packed.refs[position] = {reinterpret_cast<const std::byte*>(values + done * width), nullptr,
                                 weight};
      }
    }
    packed.size += done;
    Advance(cursor, done, width);
    return cursor.row == cursor.end || *cursor.row >= limit;
  }

  static bool PackRun(RunCursor& run, uint64_t limit, uint32_t width, PackedWindow& packed) {
    const size_t size = std::min(run.size(), packed.capacity - packed.size);
    size_t done = 0;
    for (; done < size && run.row[done] < limit; ++done) {
      const uint64_t row = run.row[done];
      const size_t position = packed.size;
      packed.keys[position] = packed.KeyOf(row, position);
      if (packed.drop > 0) packed.rows[position] = row;
      if (width == 1) {
        if constexpr (C::kHasValues) {
          Values(packed.values.data())[position] = Values(run.value)[done];
        }
        if constexpr (C::kHasRow) {
          Rows(packed.row_cells.data())[position] = Rows(run.row_cell)[done];
        }
      } else {
        const std::byte* row_cell = C::kHasRow ? run.row_cell + done * C::kRowBytes : run.value;
        packed.refs[position] = {run.value + done * width * C::kValueBytes, row_cell, 0.0f};
      }
      ++packed.size;
    }
    AdvanceRun(run, done, width);
    return run.row == run.end || *run.row >= limit;
  }

  static size_t SumSorted(const PackedWindow& packed, size_t& at, uint32_t width, size_t rows_max,
                          const CellBlock& out, SideTable& side) {
    return width == 1 ? SumPacked(packed, at, rows_max, out, side)
                      : SumRefs(packed, at, width, rows_max, out, side);
  }

  static size_t SumPacked(const PackedWindow& packed, size_t& at, size_t rows_max,
                          const CellBlock& out, SideTable& side) {
    size_t n = 0;
    const uint64_t* keys = packed.keys.data();
    while (at < packed.size && n < rows_max) {
      const uint64_t key = keys[at];
      const uint64_t row = packed.RowOf(key);
      size_t position = packed.PositionOf(keys[at]);
      [[maybe_unused]] ValueCell value = C::EmptyValue();
      [[maybe_unused]] RowCell row_cell = C::EmptyRow();
      if constexpr (C::kHasValues) value = Values(packed.values.data())[position];
      if constexpr (C::kHasRow) row_cell = Rows(packed.row_cells.data())[position];
      for (++at; at < packed.size && packed.SameRow(keys[at], key); ++at) {
        position = packed.PositionOf(keys[at]);
        if constexpr (C::kHasValues) {
          C::Join(value, Values(packed.values.data())[position], row, 0, side);
        }
        if constexpr (C::kHasRow) {
          C::JoinRow(row_cell, Rows(packed.row_cells.data())[position], row, 1, side);
        }
      }
      out.rows[n] = row;
      if constexpr (C::kHasValues) Values(out.values)[n] = value;
      if constexpr (C::kHasRow) Rows(out.row_cells)[n] = row_cell;
      ++n;
    }
    return n;
  }

  static size_t SumRefs(const PackedWindow& packed, size_t& at, uint32_t width, size_t rows_max,
                        const CellBlock& out, SideTable& side) {
    size_t n = 0;
    const uint64_t* keys = packed.keys.data();
    while (at < packed.size && n < rows_max) {
      const uint64_t key = keys[at];
      const uint64_t row = packed.RowOf(key);
      std::byte* values = out.values + n * width * C::kValueBytes;
      std::byte* row_cell = out.row_cells + n * C::kRowBytes;
      out.rows[n] = row;
      if constexpr (C::kHasRow) *Rows(row_cell) = C::EmptyRow();
      for (const size_t first = at; at < packed.size && packed.SameRow(keys[at], key); ++at) {
        if (at + kRowsAhead < packed.size) {
          PrefetchRow(packed.refs[packed.PositionOf(keys[at + kRowsAhead])].values,
                      width * sizeof(V));
        }
        const RowRef& ref = packed.refs[packed.PositionOf(keys[at])];
        if (at == first) {
          if constexpr (kCanSpeculate<C, V>) {
            if (ref.row_cell == nullptr) {
              Base::SetRow(reinterpret_cast<const V*>(ref.values), ref.weight, width,
                           Values(values));
              continue;
            }
          }
          if constexpr (C::kHasValues) std::fill_n(Values(values), width, C::EmptyValue());
        }
        if (ref.row_cell != nullptr) {
          JoinRows(row, width, ref.values, ref.row_cell, values, row_cell, side);
          continue;
        }
        Base::AddRow(row, reinterpret_cast<const V*>(ref.values), nullptr, ref.weight, {0, width},
                     Values(values), side);
        if constexpr (C::kHasRow) {
          C::JoinRow(*Rows(row_cell), C::LiftRow(ref.weight), row, width, side);
        }
      }
      ++n;
    }
    return n;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace sparseagg
HWY_AFTER_NAMESPACE();

#endif  // SPARSEAGG_CPU_KERNELS_SORTED_INL_H_
