// Windows with a cell for every coordinate.
// Compiled once for every instruction set: see simd-inl.h.
#if defined(SPARSEAGG_CPU_DENSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARSEAGG_CPU_DENSE_INL_H_
#undef SPARSEAGG_CPU_DENSE_INL_H_
#else
#define SPARSEAGG_CPU_DENSE_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cpu/cells.h"
#include "cpu/kernels.h"
#include "cpu/rows-inl.h"
#include "cpu/scatter_values-inl.h"
#include "cpu/side_table.h"
#include "cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparseagg {
namespace HWY_NAMESPACE {  // NOLINT(google-readability-namespace-comments)
namespace hn = hwy::HWY_NAMESPACE;

template <ValueSlots kValues, RowSlot kRow, class V>
struct DenseKernels : ScatterValuesKernels<kValues, kRow, V> {
  using Base = ScatterValuesKernels<kValues, kRow, V>;
  using C = typename Base::C;
  using ValueCell = typename Base::ValueCell;
  using RowCell = typename Base::RowCell;
  using Base::AddOne;
  using Base::AdvanceRun;
  using Base::JoinRows;
  using Base::kBytesAhead;
  using Base::kTile;
  using Base::Rows;
  using Base::Values;

  // Bits of a tile: of as many rows as make kTile vectors, and whole bytes.
  using TileBits = std::conditional_t<kTile * kLanes == 32, uint32_t,
                                      std::conditional_t<kTile * kLanes == 16, uint16_t, uint8_t>>;

  static void Clear(const CellWindow& window, size_t rows, uint32_t width) {
    if constexpr (C::kHasValues) std::fill_n(Values(window.values), rows * width, C::EmptyValue());
    if constexpr (C::kHasRow) std::fill_n(Rows(window.row_cells), rows, C::EmptyRow());
  }

  static void ScatterBits(const PackedRows::Bits& rows, const std::byte* values, float weight,
                          const CellWindow& window, SideTable& side) {
    const auto* value = reinterpret_cast<const V*>(values);
    uint64_t done = 0;
    if constexpr (C::kInexactValues && !C::kHasRow) {
      AddTilesOfBits<TileBits>(rows, done, value, weight, window, side);
      AddTilesOfBits<uint8_t>(rows, done, value, weight, window, side);
    }
    for (; done <= rows.last - rows.first; done += 8) {
      const size_t bits = rows.bytes[done / 8];
      AddBitsSlowly(rows.first + done, bits, value, weight, window, side);
      value += std::popcount(bits);
    }
  }

  // As many rows as are whole tiles, each with as many rows as `Bits` has bits; `value` is moved
  // on.
  template <class Bits>
  static HWY_INLINE void AddTilesOfBits(const PackedRows::Bits& rows, uint64_t& done,
                                        const V*& value, float weight, const CellWindow& window,
                                        SideTable& side) {
    constexpr size_t kRows = 8 * sizeof(Bits);
    for (; done + kRows <= rows.last - rows.first + 1; done += kRows) {
      for (size_t byte = 0; byte < kRows * sizeof(V); byte += kLineBytes) {
        FetchLine(reinterpret_cast<const char*>(value) + kBytesAhead + byte);
      }
      Bits bits;
      std::memcpy(&bits, rows.bytes + done / 8, sizeof(bits));
      if (!AddBits(rows.first + done, bits, value, weight, window, side)) {
        AddBitsSlowly(rows.first + done, bits, value, weight, window, side);
      }
      value += std::popcount(bits);
    }
  }

  static void AddBitsSlowly(uint64_t row, size_t bits, const V* value, float weight,
                            const CellWindow& window, SideTable& side) {
    for (; bits != 0; bits &= bits - 1) {
      AddOne(row + std::countr_zero(bits), value++, weight, window, side);
    }
  }

  // False when a product is beyond what a cell takes; nothing is added then. To rows without a bit
  // -0.0 is added, which changes nothing, an empty cell's -0.0 included.
  template <class Bits>
  static HWY_INLINE bool AddBits(uint64_t row, Bits bits, const V* HWY_RESTRICT value, float weight,
                                 const CellWindow& window, SideTable& side) {
    constexpr size_t kRows = 8 * sizeof(Bits);
    constexpr size_t kVectors = kRows / kLanes;
    constexpr uint64_t kAllLanes = (uint64_t{1} << kLanes) - 1;
    const DoubleTag d;
    double* HWY_RESTRICT cells = reinterpret_cast<double*>(window.values) + (row - window.begin);
    const auto factor = hn::Set(d, static_cast<double>(std::fabs(weight)));
    hn::Vec<DoubleTag> addends[kVectors];
    hn::Vec<DoubleTag> before[kVectors];
    bool beyond = false;
    if (bits == static_cast<Bits>(~Bits{0})) {
      for (size_t v = 0; v < kVectors; ++v) {
        addends[v] = Product(d, factor, value + v * kLanes);
        beyond |= AnyBeyondCells<V>(d, addends[v]);
      }
    } else {
      for (size_t v = 0; v < kVectors; ++v) {
        const uint64_t earlier = bits & ((uint64_t{1} << (v * kLanes)) - 1);
        const auto products = Product(d, factor, value + std::popcount(earlier));
        beyond |= AnyBeyondCells<V>(d, products);
        addends[v] = SpreadOver(bits >> (v * kLanes) & kAllLanes, products);
      }
    }
    if (HWY_UNLIKELY(beyond)) return false;
    auto lost = hn::Zero(BitsTag());
    for (size_t v = 0; v < kVectors; ++v) {
      before[v] = hn::LoadU(d, cells + v * kLanes);
      hn::StoreU(SumsIfExact(before[v], addends[v], lost), d, cells + v * kLanes);
    }
    if (HWY_UNLIKELY(AnyLost(lost))) {
      HWY_ALIGN double errors[kRows];
      for (size_t v = 0; v < kVectors; ++v) {
        StoreSumsAndErrors(d, before[v], addends[v], cells + v * kLanes, errors + v * kLanes);
      }
      for (size_t i = 0; i < kRows; ++i) side.Push(row + i, 0, errors[i]);
    }
    return true;
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

  // ---- Out of dense windows.

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

  static HWY_INLINE hn::Mask<BitsTag> AreHeld(hn::Vec<DoubleTag> sums) {
    const BitsTag du;
    return hn::Ne(hn::BitCast(du, sums), hn::Set(du, uint64_t{1} << 63));
  }

  template <bool kEmpty>
  static size_t MoveOut(const CellWindow& window, size_t& at, size_t rows, uint32_t width,
                        size_t rows_max, const CellBlock& out) {
    size_t n = 0;
    if constexpr (C::kInexactValues && !C::kHasRow) {
      if (width == 1) n = Compress<kEmpty>(window, at, rows, rows_max, out);
    }
    for (; at < rows && n < rows_max; ++at) {
      if (!IsHeld(window, at, width)) continue;
      out.rows[n] = window.begin + at;
      if constexpr (C::kHasValues) {
        std::copy_n(Values(window.values) + at * width, width, Values(out.values) + n * width);
        if (kEmpty) std::fill_n(Values(window.values) + at * width, width, C::EmptyValue());
      }
      if constexpr (C::kHasRow) {
        Rows(out.row_cells)[n] = Rows(window.row_cells)[at];
        if (kEmpty) Rows(window.row_cells)[at] = C::EmptyRow();
      }
      ++n;
    }
    return n;
  }

  // Whole vectors; what is left of the window is the caller's.
  template <bool kEmpty>
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
      if (kEmpty) hn::StoreU(hn::BitCast(d, empty), d, cells + from);
    }
    at = from;
    return n;
  }

  static size_t Collect(const CellWindow& window, size_t& at, size_t rows, uint32_t width,
                        size_t rows_max, const CellBlock& out) {
    return MoveOut<true>(window, at, rows, width, rows_max, out);
  }
  static size_t Copy(const CellWindow& window, size_t& at, size_t rows, uint32_t width,
                     size_t rows_max, const CellBlock& out) {
    return MoveOut<false>(window, at, rows, width, rows_max, out);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace sparseagg
HWY_AFTER_NAMESPACE();

#endif  // SPARSEAGG_CPU_DENSE_INL_H_
