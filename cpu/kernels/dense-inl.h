// Kernels of windows with a cell for every coordinate. Compiled once for every instruction set: see
// simd-inl.h.
#if defined(SPARSEAGG_CPU_KERNELS_DENSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARSEAGG_CPU_KERNELS_DENSE_INL_H_
#undef SPARSEAGG_CPU_KERNELS_DENSE_INL_H_
#else
#define SPARSEAGG_CPU_KERNELS_DENSE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu/kernels/kernels.h"
#include "cpu/kernels/rows-inl.h"
#include "cpu/kernels/scatter_bits-inl.h"
#include "cpu/kernels/simd-inl.h"
#include "cpu/state/cells.h"
#include "cpu/state/side_table.h"

HWY_BEFORE_NAMESPACE();
namespace sparseagg {
namespace HWY_NAMESPACE {  // NOLINT(google-readability-namespace-comments)
namespace hn = hwy::HWY_NAMESPACE;

template <ValueSlots kValues, RowSlot kRow, class V>
struct DenseKernels : ScatterBitsKernels<kValues, kRow, V> {
  using Base = ScatterBitsKernels<kValues, kRow, V>;
  using C = typename Base::C;
  using ValueCell = typename Base::ValueCell;
  using RowCell = typename Base::RowCell;
  using Base::AdvanceRun;
  using Base::JoinRows;
  using Base::Rows;
  using Base::Values;

  static void Clear(const CellWindow& window, size_t rows, uint32_t width) {
    if constexpr (C::kHasValues) std::fill_n(Values(window.values), rows * width, C::EmptyValue());
    if constexpr (C::kHasRow) {
      if (window.row_cells != nullptr) std::fill_n(Rows(window.row_cells), rows, C::EmptyRow());
    }
  }

  static void ScatterRun(RunCursor& run, uint64_t limit, uint32_t width, const CellWindow& window,
                         SideTable& side) {
    size_t done = 0;
    const size_t size = run.size();
    for (; done < size && run.row[done] < limit; ++done) {
      const uint64_t at = run.row[done] - window.begin;
      JoinRows(run.row[done], width, run.value + done * width * C::kValueBytes,
               run.row_cell + done * C::kRowBytes, window.values + at * width * C::kValueBytes,
               window.row_cells + at * C::kRowBytes, side);
    }
    AdvanceRun(run, done, width);
  }

  // ---- Reading held rows.

  static bool IsHeld(const CellWindow& window, size_t row, uint32_t width) {
    if constexpr (C::kHasValues) {
      return !C::IsEmpty(Values(window.values)[row * width]);
    } else {
      return Rows(window.row_cells)[row] != C::EmptyRow();
    }
  }

  static size_t CountHeld(const CellWindow& window, size_t rows, uint32_t width) {
    size_t count = 0;
    size_t row = 0;
    if constexpr (C::kInexactValues && !C::kHasRow) {
      const DoubleTag d;
      const auto* HWY_RESTRICT cells = reinterpret_cast<const double*>(window.values);
      for (; width == 1 && row + kLanes <= rows; row += kLanes) {
        count += hn::CountTrue(BitsTag(), AreHeld(hn::LoadU(d, cells + row)));
      }
    }
    for (; row < rows; ++row) count += IsHeld(window, row, width) ? 1 : 0;
    return count;
  }

  template <bool kClear>
  static size_t CopyHeld(const CellWindow& window, size_t& at, size_t rows, uint32_t width,
                         size_t rows_max, const CellBlock& out) {
    size_t n = 0;
    if constexpr (C::kInexactValues && !C::kHasRow) {
      if (width == 1) n = Compress<kClear>(window, at, rows, rows_max, out);
    }
    for (; at < rows && n < rows_max; ++at) {
      if (!IsHeld(window, at, width)) continue;
      out.rows[n] = window.begin + at;
      if constexpr (C::kHasValues) {
        std::copy_n(Values(window.values) + at * width, width, Values(out.values) + n * width);
        if (kClear) std::fill_n(Values(window.values) + at * width, width, C::EmptyValue());
      }
      if constexpr (C::kHasRow) {
        Rows(out.row_cells)[n] = Rows(window.row_cells)[at];
        if (kClear) Rows(window.row_cells)[at] = C::EmptyRow();
      }
      ++n;
    }
    return n;
  }

  // Handles whole vectors; the caller handles the rest of the window.
  template <bool kClear>
  static size_t Compress(const CellWindow& window, size_t& at, size_t rows, size_t rows_max,
                         const CellBlock& out) {
    const DoubleTag d;
    const BitsTag du;
    const uint64_t begin = window.begin;
    auto* HWY_RESTRICT cells = reinterpret_cast<double*>(window.values);
    auto* HWY_RESTRICT out_cells = reinterpret_cast<double*>(out.values);
    uint64_t* HWY_RESTRICT out_rows = out.rows;
    const auto empty = hn::Set(du, uint64_t{1} << 63);
    size_t n = 0;
    size_t from = at;
    for (; from + kLanes <= rows && n + kLanes <= rows_max; from += kLanes) {
      const auto sums = hn::LoadU(d, cells + from);
      const auto held = AreHeld(sums);
      const auto lanes = LanesOf(BitsOf(held));
      hn::StoreU(hn::Add(hn::Set(du, begin + from), lanes), du, out_rows + n);
      hn::StoreU(hn::TableLookupLanes(sums, hn::IndicesFromVec(d, lanes)), d, out_cells + n);
      n += hn::CountTrue(du, held);
      if (kClear) hn::StoreU(hn::BitCast(d, empty), d, cells + from);
    }
    at = from;
    return n;
  }

  static size_t Drain(const CellWindow& window, size_t& at, size_t rows, uint32_t width,
                      size_t rows_max, const CellBlock& out) {
    return CopyHeld<true>(window, at, rows, width, rows_max, out);
  }
  static size_t Copy(const CellWindow& window, size_t& at, size_t rows, uint32_t width,
                     size_t rows_max, const CellBlock& out) {
    return CopyHeld<false>(window, at, rows, width, rows_max, out);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace sparseagg
HWY_AFTER_NAMESPACE();

#endif  // SPARSEAGG_CPU_KERNELS_DENSE_INL_H_
