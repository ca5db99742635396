// Reads entries, and joins rows into rows of cells. Compiled once for every instruction set: see
// simd-inl.h.
#if defined(SPARSEAGG_CPU_KERNELS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARSEAGG_CPU_KERNELS_ROWS_INL_H_
#undef SPARSEAGG_CPU_KERNELS_ROWS_INL_H_
#else
#define SPARSEAGG_CPU_KERNELS_ROWS_INL_H_
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cpu/kernels/kernels.h"
#include "cpu/kernels/simd-inl.h"
#include "cpu/state/cells.h"
#include "cpu/state/side_table.h"

HWY_BEFORE_NAMESPACE();
namespace sparseagg {
namespace HWY_NAMESPACE {  // NOLINT(google-readability-namespace-comments)
namespace hn = hwy::HWY_NAMESPACE;

// What the kernels of one kind of cell and value type share: how entries are read, and how a row of
// values, or a row of cells, is joined into a row of cells.
template <ValueSlots kValues, RowSlot kRow, class V>
struct RowKernels {
  using C = Cells<kValues, kRow, V>;
  using ValueCell = typename C::Value;
  using RowCell = typename C::Row;

  static ValueCell* Values(std::byte* at) { return reinterpret_cast<ValueCell*>(at); }
  static const ValueCell* Values(const std::byte* at) {
    return reinterpret_cast<const ValueCell*>(at);
  }
  static RowCell* Rows(std::byte* at) { return reinterpret_cast<RowCell*>(at); }
  static const RowCell* Rows(const std::byte* at) { return reinterpret_cast<const RowCell*>(at); }

  template <class AnyCursor>
  static const V* EntryValues(const AnyCursor& cursor) {
    return reinterpret_cast<const V*>(cursor.value);
  }

  static float WeightOf(const Cursor& cursor, size_t entry) {
    return cursor.weights == nullptr ? cursor.weight : cursor.weights[entry];
  }
  static float WeightOf(const NarrowCursor& cursor, size_t /*entry*/) { return cursor.weight; }

  static HWY_INLINE uint64_t RowOf(const Cursor& cursor, size_t entry, const CellWindow&) {
    return cursor.row[entry];
  }
  static HWY_INLINE uint64_t RowOf(const NarrowCursor& cursor, size_t entry,
                                   const CellWindow& window) {
    return window.begin + cursor.row[entry];
  }

  static void Advance(Cursor& cursor, size_t entries, size_t width) {
    cursor.row += entries;
    if (C::kHasValues) cursor.value += entries * width * sizeof(V);
    if (cursor.weights != nullptr) cursor.weights += entries;
  }

  static void Advance(NarrowCursor& cursor, size_t entries, size_t /*width*/) {
    cursor.row += entries;
    cursor.value += entries * sizeof(V);
  }

  // Vectors that are added between two checks of their errors.
  static constexpr size_t kTile = 4;

  // Adds as many columns as form whole tiles, and returns the first column after them. Prefetches
  // `ahead`, a row of values that comes later, unless it is null.
  template <size_t kVectors>
  static HWY_INLINE uint32_t AddTiles(uint64_t row, const V* HWY_RESTRICT values, const V* ahead,
                                      float weight, Columns columns, double* HWY_RESTRICT cells,
                                      SideTable& side) {
    constexpr uint32_t kColumns = kVectors * kLanes;
    const DoubleTag d;
    const auto factor = hn::Set(d, static_cast<double>(std::fabs(weight)));
    uint32_t c = columns.begin;
    for (; c + kColumns <= columns.end; c += kColumns) {
      hn::Vec<DoubleTag> before[kVectors];
      hn::Vec<DoubleTag> products[kVectors];
      auto lost = hn::Zero(BitsTag());
      bool beyond = false;
      PrefetchColumns(ahead, c, kColumns);
      for (size_t t = 0; t < kVectors; ++t) {
        products[t] = Product(d, factor, values + c + t * kLanes);
        beyond |= AnyBeyondCells<V>(d, products[t]);
      }
      if (HWY_UNLIKELY(beyond)) {
        AddRowScalar(row, values, weight, {c, c + kColumns}, cells, side);
        continue;
      }
      for (size_t t = 0; t < kVectors; ++t) {
        before[t] = hn::LoadU(d, cells + c + t * kLanes);
        hn::StoreU(SumsIfExact(before[t], products[t], lost), d, cells + c + t * kLanes);
      }
      if (HWY_UNLIKELY(AnyLost(lost))) {
        HWY_ALIGN double errors[kColumns];
        for (size_t t = 0; t < kVectors; ++t) {
          StoreSumsAndErrors(d, before[t], products[t], cells + c + t * kLanes,
                             errors + t * kLanes);
        }
        for (size_t t = 0; t < kVectors; ++t) {
          PushErrors(row, c + t * kLanes, errors + t * kLanes, side);
        }
      }
    }
    return c;
  }

  // Pushes kLanes errors of columns from `column` on.
  static HWY_INLINE void PushErrors(uint64_t row, uint32_t column,
                                    const double* HWY_RESTRICT errors, SideTable& side) {
    ErrorCells* const cells = side.cells();
    if (cells == nullptr || !cells->Covers(row, column) ||
        !cells->Covers(row, column + kLanes - 1)) {
      for (uint32_t i = 0; i < kLanes; ++i) side.Push(row, column + i, errors[i]);
      return;
    }
    const DoubleTag d;
    const size_t at = cells->IndexOf(row, column);
    auto rest = hn::Load(d, errors);
    for (size_t k = 0; !hn::AllTrue(d, hn::Eq(rest, hn::Zero(d))); ++k) {
      double* const level = cells->Level(k);
      if (level == nullptr) {
        HWY_ALIGN double rests[kLanes];
        hn::Store(rest, d, rests);
        for (uint32_t i = 0; i < kLanes; ++i) {
          if (rests[i] != 0.0) side.PushEntry(row, column + i, rests[i]);
        }
        return;
      }
      const auto before = hn::LoadU(d, level + at);
      const auto sums = hn::Add(before, rest);
      hn::StoreU(sums, d, level + at);
      rest = ErrorOf(before, rest, sums);
      side.CountPushed();
    }
  }

  static HWY_INLINE void PrefetchColumns(const V* row, uint32_t column, uint32_t size) {
    if (row == nullptr) return;
    for (size_t byte = 0; byte < size * sizeof(V); byte += kLineBytes) {
      PrefetchLine(reinterpret_cast<const char*>(row + column) + byte);
    }
  }

  // cells[c] += weight * values[c].
  static HWY_INLINE void AddRow(uint64_t row, const V* HWY_RESTRICT values, const V* ahead,
                                float weight, Columns columns, ValueCell* HWY_RESTRICT cells,
                                SideTable& side) {
    if constexpr (C::kHasValues) {
      uint32_t c = columns.begin;
      if constexpr (C::kInexactValues) {
        c = AddTiles<kTile>(row, values, ahead, weight, {c, columns.end}, cells, side);
        c = AddTiles<1>(row, values, ahead, weight, {c, columns.end}, cells, side);
      }
      AddRowScalar(row, values, weight, {c, columns.end}, cells, side);
    }
  }

  // The speculative form of AddRow(). With kLog, saves the former cells to `log`, one after
  // another.
  template <bool kLog>
  static HWY_INLINE void AddRowSpeculatively(const V* HWY_RESTRICT values, const V* ahead,
                                             float weight, Columns columns,
                                             double* HWY_RESTRICT cells, double* HWY_RESTRICT log) {
    constexpr uint32_t kColumns = kTile * kLanes;
    const DoubleTag d;
    const auto factor = hn::Set(d, static_cast<double>(std::fabs(weight)));
    const auto add = [&](size_t at) {
      const auto before = hn::LoadU(d, cells + at);
      if (kLog) hn::StoreU(before, d, log + (at - columns.begin));
      hn::StoreU(hn::Add(before, Product(d, factor, values + at)), d, cells + at);
    };
    uint32_t c = columns.begin;
    for (; c + kColumns <= columns.end; c += kColumns) {
      PrefetchColumns(ahead, c, kColumns);
      for (size_t t = 0; t < kTile; ++t) add(c + t * kLanes);
    }
    PrefetchColumns(ahead, c, columns.end - c);
    for (; c + kLanes <= columns.end; c += kLanes) add(c);
    for (; c < columns.end; ++c) {
      if (kLog) log[c - columns.begin] = cells[c];
      cells[c] += C::Lift(values[c], weight);
    }
  }

  // cells[c] = weight * values[c], where products are exact.
  static HWY_INLINE void SetRow(const V* HWY_RESTRICT values, float weight, uint32_t width,
                                double* HWY_RESTRICT cells) {
    const DoubleTag d;
    const auto factor = hn::Set(d, static_cast<double>(std::fabs(weight)));
    uint32_t c = 0;
    for (; c + kLanes <= width; c += kLanes) {
      hn::StoreU(Product(d, factor, values + c), d, cells + c);
    }
    for (; c < width; ++c) cells[c] = C::Lift(values[c], weight);
  }

  static void AddRowScalar(uint64_t row, const V* values, float weight, Columns columns,
                           ValueCell* cells, SideTable& side) {
    for (uint32_t c = columns.begin; c < columns.end; ++c) {
      C::Join(cells[c], C::LiftChecked(values[c], weight, row, c, side), row, c, side);
    }
  }

  // Values of a cursor are prefetched from memory while those this many bytes before them are
  // added. Cells come from the second-level cache, which needs no prefetching.
  static constexpr size_t kBytesAhead = 6144;

  // Joins as many cells of a row as form whole vectors, and returns the first cell after them.
  static uint32_t JoinVectors(uint64_t row, uint32_t width, const double* HWY_RESTRICT from,
                              double* HWY_RESTRICT cells, SideTable& side) {
    const DoubleTag d;
    uint32_t c = 0;
    for (; c + kLanes <= width; c += kLanes) {
      const auto before = hn::LoadU(d, cells + c);
      const auto addends = hn::LoadU(d, from + c);
      auto lost = hn::Zero(BitsTag());
      hn::StoreU(SumsIfExact(before, addends, lost), d, cells + c);
      if (HWY_UNLIKELY(AnyLost(lost))) {
        HWY_ALIGN double errors[kLanes];
        StoreSumsAndErrors(d, before, addends, cells + c, errors);
        PushErrors(row, c, errors, side);
      }
    }
    return c;
  }

  static void JoinRows(uint64_t row, uint32_t width, const std::byte* from_values,
                       const std::byte* from_row, std::byte* values, std::byte* row_cell,
                       SideTable& side) {
    if constexpr (C::kHasValues) {
      uint32_t c = 0;
      if constexpr (C::kInexactValues) {
        c = JoinVectors(row, width, Values(from_values), Values(values), side);
      }
      for (; c < width; ++c) C::Join(Values(values)[c], Values(from_values)[c], row, c, side);
    }
    if constexpr (C::kHasRow) C::JoinRow(*Rows(row_cell), *Rows(from_row), row, width, side);
  }

  static void AdvanceRun(RunCursor& run, size_t rows, uint32_t width) {
    run.row += rows;
    run.value += rows * width * C::kValueBytes;
    run.row_cell += rows * C::kRowBytes;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace sparseagg
HWY_AFTER_NAMESPACE();

#endif  // SPARSEAGG_CPU_KERNELS_ROWS_INL_H_
