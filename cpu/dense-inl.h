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
#include <span>
#include <type_traits>

#include "cpu/cells.h"
#include "cpu/kernels.h"
#include "cpu/rows-inl.h"
#include "cpu/scatter_rows-inl.h"
#include "cpu/side_table.h"
#include "cpu/simd-inl.h"
#include "cpu/trial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparseagg {
namespace HWY_NAMESPACE {  // NOLINT(google-readability-namespace-comments)
namespace hn = hwy::HWY_NAMESPACE;

template <ValueSlots kValues, RowSlot kRow, class V>
struct DenseKernels : ScatterRowsKernels<kValues, kRow, V> {
  using Base = ScatterRowsKernels<kValues, kRow, V>;
  using C = typename Base::C;
  using ValueCell = typename Base::ValueCell;
  using RowCell = typename Base::RowCell;
  using Base::Advance;
  using Base::AdvanceRun;
  using Base::EntryValues;
  using Base::JoinRows;
  using Base::kBytesAhead;
  using Base::kTile;
  using Base::RowOf;
  using Base::Rows;
  using Base::Values;
  using Base::WeightOf;

  // Bits of a tile: of as many rows as make kTile vectors, and whole bytes.
  using TileBits = std::conditional_t<kTile * kLanes == 32, uint32_t,
                                      std::conditional_t<kTile * kLanes == 16, uint16_t, uint8_t>>;

  static void Clear(const CellWindow& window, size_t rows, uint32_t width) {
    if constexpr (C::kHasValues) std::fill_n(Values(window.values), rows * width, C::EmptyValue());
    if constexpr (C::kHasRow) std::fill_n(Rows(window.row_cells), rows, C::EmptyRow());
  }

  // ---- Dense windows, one value a row.

  static HWY_INLINE void AddOne(uint64_t row, const V* value, float weight,
                                const CellWindow& window, SideTable& side) {
    const uint64_t at = row - window.begin;
    if constexpr (C::kHasValues) {
      C::Join(Values(window.values)[at], C::LiftChecked(*value, weight, row, 0, side), row, 0,
              side);
    }
    if constexpr (C::kHasRow) {
      C::JoinRow(Rows(window.row_cells)[at], C::LiftRow(weight), row, 1, side);
    }
  }

  // Entries of the same cursor that are fetched ahead: the processor's own prefetching starts anew
  // at each page. For short visits these are what the next windows will ask for.
  static constexpr size_t kEntriesFetched = 192;

  // What kLanes entries from `at` on add.
  template <bool kOneWeight, class AnyCursor>
  static HWY_INLINE hn::Vec<DoubleTag> Products(const AnyCursor& cursor, size_t at) {
    const DoubleTag d;
    if constexpr (kOneWeight) {
      const auto weight = hn::Set(d, static_cast<double>(std::fabs(cursor.weight)));
      return Product(d, weight, EntryValues(cursor) + at);
    } else {
      return Product(d, hn::Abs(LoadWide(d, cursor.weights + at)), EntryValues(cursor) + at);
    }
  }

  // kGroup entries at a time, as long as all of them are below `limit`. Their products are formed
  // as vectors; rounding errors are looked at once a group, or, on trial, once for many.
  template <bool kOneWeight, class AnyCursor>
  static HWY_INLINE void ScatterSums(AnyCursor& cursor, uint64_t limit, const CellWindow& window,
                                     SideTable& side) {
    const size_t size = cursor.size();
    size_t done = 0;
    const auto more = [&](size_t at) {
      return at + kGroup <= size && RowOf(cursor, at + kGroup - 1, window) < limit;
    };
    if constexpr (kHasTrials<C, V>) {
      HWY_ALIGN double log[kTrialEntries + kGroup];
      while (more(done + kTrialEntriesMin - kGroup)) {
        const size_t begin = done;
        if (!WantsTrial(side)) {
          for (; done < begin + kTrialEntries && more(done); done += kGroup) {
            AddGroup<kOneWeight>(cursor, done, window, side);
          }
          continue;
        }
        const auto add = [&] { done = TryEntries<kOneWeight>(cursor, begin, limit, window, log); };
        const auto undo = [&] {
          for (size_t i = done; i-- > begin;) {
            Values(window.values)[RowOf(cursor, i, window) - window.begin] = log[i - begin];
          }
        };
        const auto add_checked = [&] {
          size_t i = begin;
          for (; i + kGroup <= done; i += kGroup) AddGroup<kOneWeight>(cursor, i, window, side);
          for (; i < done; ++i) {
            AddOne(RowOf(cursor, i, window), EntryValues(cursor) + i, WeightOf(cursor, i), window,
                   side);
          }
        };
        Try(side, add, undo, add_checked);
      }
    }
    for (; more(done); done += kGroup) AddGroup<kOneWeight>(cursor, done, window, side);
    Advance(cursor, done, 1);
  }

  // Entries that one trial is about. With fewer, asking costs more than it saves.
  static constexpr size_t kTrialEntries = 128;
  static constexpr size_t kTrialEntriesMin = 16;

  // Entries from `begin` on that are below `limit`, kTrialEntries or, if there are fewer than that,
  // all of them; returns where they end. Works on copies: the compiler cannot know that cells are
  // not what references refer to.
  template <bool kOneWeight, class AnyCursor>
  static HWY_INLINE size_t TryEntries(const AnyCursor& entries, size_t begin, uint64_t limit,
                                      const CellWindow& cells, double* HWY_RESTRICT log) {
    const AnyCursor cursor = entries;
    const CellWindow window = cells;
    const size_t size = cursor.size();
    const size_t most = begin + kTrialEntries;
    size_t at = begin;
    for (; at < most && at + kGroup <= size && RowOf(cursor, at + kGroup - 1, window) < limit;
         at += kGroup) {
      TryGroup<kOneWeight>(cursor, at, window, log + (at - begin));
    }
    if (at >= most) return at;
    // Fewer than a group; but a visit has few groups.
    for (; at < size && RowOf(cursor, at, window) < limit; ++at) {
      double& cell = Values(window.values)[RowOf(cursor, at, window) - window.begin];
      log[at - begin] = cell;
      cell += C::Lift(EntryValues(cursor)[at], WeightOf(cursor, at));
    }
    return at;
  }

  template <bool kOneWeight, class AnyCursor>
  static HWY_INLINE void TryGroup(const AnyCursor& cursor, size_t at, const CellWindow& window,
                                  double* HWY_RESTRICT log) {
    const DoubleTag d;
    double* HWY_RESTRICT cells = reinterpret_cast<double*>(window.values);
    const auto* HWY_RESTRICT row = cursor.row + at;
    FetchLine(row + kEntriesFetched);
    FetchLine(EntryValues(cursor) + at + kEntriesFetched);
    if (cursor.canonical && row[kGroup - 1] - row[0] == kGroup - 1) {
      double* HWY_RESTRICT first = cells + (RowOf(cursor, at, window) - window.begin);
      for (size_t i = 0; i < kGroup; i += kLanes) {
        const auto before = hn::LoadU(d, first + i);
        hn::StoreU(before, d, log + i);
        const auto product = Products<kOneWeight>(cursor, at + i);
        hn::StoreU(hn::Add(before, product), d, first + i);
      }
      return;
    }
    HWY_ALIGN double products[kGroup];
    for (size_t i = 0; i < kGroup; i += kLanes) {
      hn::Store(Products<kOneWeight>(cursor, at + i), d, products + i);
    }
    HWY_UNROLL(kGroup)
    for (size_t i = 0; i < kGroup; ++i) {
      double& cell = cells[RowOf(cursor, at + i, window) - window.begin];
      log[i] = cell;
      cell += products[i];
    }
  }

  template <bool kOneWeight, class AnyCursor>
  static HWY_INLINE void AddGroup(const AnyCursor& cursor, size_t at, const CellWindow& window,
                                  SideTable& side) {
    const DoubleTag d;
    double* HWY_RESTRICT cells = reinterpret_cast<double*>(window.values);
    [[maybe_unused]] double* HWY_RESTRICT row_cells = reinterpret_cast<double*>(window.row_cells);
    const auto* HWY_RESTRICT row = cursor.row + at;
    const auto row_of = [&](size_t i) { return RowOf(cursor, at + i, window); };
    const V* HWY_RESTRICT value = EntryValues(cursor) + at;
    FetchLine(row + kEntriesFetched);
    FetchLine(value + kEntriesFetched);
    HWY_ALIGN double products[kGroup];
    HWY_ALIGN double errors[kGroup];
    bool beyond = false;
    for (size_t i = 0; i < kGroup; i += kLanes) {
      const auto product = Products<kOneWeight>(cursor, at + i);
      beyond |= AnyBeyondCells<V>(d, product);
      hn::Store(product, d, products + i);
    }
    if (HWY_UNLIKELY(beyond)) {
      for (size_t i = 0; i < kGroup; ++i) {
        AddOne(row_of(i), value + i, WeightOf(cursor, at + i), window, side);
      }
      return;
    }
    bool lost;
    const uint64_t first = row_of(0) - window.begin;
    if (cursor.canonical && row[kGroup - 1] - row[0] == kGroup - 1) {
      hn::Vec<DoubleTag> before[kGroup / kLanes];
      auto any = hn::Zero(BitsTag());
      for (size_t i = 0; i < kGroup; i += kLanes) {
        const auto addends = hn::Load(d, products + i);
        before[i / kLanes] = hn::LoadU(d, cells + first + i);
        hn::StoreU(SumsIfExact(before[i / kLanes], addends, any), d, cells + first + i);
      }
      lost = AnyLost(any);
      for (size_t i = 0; lost && i < kGroup; i += kLanes) {
        StoreSumsAndErrors(d, before[i / kLanes], hn::Load(d, products + i), cells + first + i,
                           errors + i);
      }
    } else {
      uint64_t any = 0;
      for (size_t i = 0; i < kGroup; ++i) {
        errors[i] = C::AddExact(cells[row_of(i) - window.begin], products[i]);
        any |= BitCast<uint64_t>(errors[i]);
      }
      lost = (any << 1) != 0;
    }
    if (HWY_UNLIKELY(lost)) {
      for (size_t i = 0; i < kGroup; ++i) side.Push(row_of(i), 0, errors[i]);
    }
    if constexpr (C::kHasRow) {
      uint64_t any = 0;
      for (size_t i = 0; i < kGroup; ++i) {
        errors[i] =
            C::AddExact(row_cells[row_of(i) - window.begin], C::LiftRow(WeightOf(cursor, at + i)));
        any |= BitCast<uint64_t>(errors[i]);
      }
      if (HWY_UNLIKELY((any << 1) != 0)) {
        for (size_t i = 0; i < kGroup; ++i) side.Push(row_of(i), 1, errors[i]);
      }
    }
  }

  template <class AnyCursor>
  static void Scatter(std::span<AnyCursor> cursors, uint64_t limit, const Ahead& ahead,
                      const CellWindow& window, SideTable& side) {
    constexpr bool kNarrow = std::is_same_v<AnyCursor, NarrowCursor>;
    for (size_t k = 0; k < cursors.size(); ++k) {
      if constexpr (!kNarrow) {
        if (ahead.lines > 0 && k + ahead.cursors < cursors.size()) {
          Fetch(cursors[k + ahead.cursors], ahead.lines, C::kHasValues ? sizeof(V) : 0);
        }
      }
      if (!ahead.cells.empty()) FetchPart(ahead.cells, k, cursors.size());
      AnyCursor& cursor = cursors[k];
      if constexpr (C::kInexactValues && kNarrow) {
        ScatterSums<true>(cursor, limit, window, side);
      } else if constexpr (C::kInexactValues) {
        if (cursor.weights == nullptr) {
          ScatterSums<true>(cursor, limit, window, side);
        } else {
          ScatterSums<false>(cursor, limit, window, side);
        }
      }
      size_t done = 0;
      const size_t size = cursor.size();
      const V* value = EntryValues(cursor);
      for (; done < size && RowOf(cursor, done, window) < limit; ++done) {
        AddOne(RowOf(cursor, done, window), value + done, WeightOf(cursor, done), window, side);
      }
      Advance(cursor, done, 1);
    }
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
