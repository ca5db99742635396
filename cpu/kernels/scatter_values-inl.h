// Adds entries of one value to a window with a cell for every coordinate. Compiled once for every
// instruction set: see simd-inl.h.
#if defined(SPARSEAGG_CPU_KERNELS_SCATTER_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARSEAGG_CPU_KERNELS_SCATTER_VALUES_INL_H_
#undef SPARSEAGG_CPU_KERNELS_SCATTER_VALUES_INL_H_
#else
#define SPARSEAGG_CPU_KERNELS_SCATTER_VALUES_INL_H_
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "cpu/kernels/kernels.h"
#include "cpu/kernels/scatter_rows-inl.h"
#include "cpu/kernels/simd-inl.h"
#include "cpu/kernels/speculative-inl.h"
#include "cpu/state/cells.h"
#include "cpu/state/side_table.h"

HWY_BEFORE_NAMESPACE();
namespace sparseagg {
namespace HWY_NAMESPACE {  // NOLINT(google-readability-namespace-comments)
namespace hn = hwy::HWY_NAMESPACE;

template <ValueSlots kValues, RowSlot kRow, class V>
struct ScatterValuesKernels : ScatterRowsKernels<kValues, kRow, V> {
  using Base = ScatterRowsKernels<kValues, kRow, V>;
  using C = typename Base::C;
  using Base::Advance;
  using Base::EntryValues;
  using Base::kBytesAhead;
  using Base::RowOf;
  using Base::Rows;
  using Base::Values;
  using Base::WeightOf;

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

  // How many entries of the same cursor are prefetched ahead: the processor's own prefetcher starts
  // again at each page. In short visits these are the entries of the next windows.
  static constexpr size_t kEntriesPrefetched = 192;

  // Returns what kLanes entries from `at` on add.
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

  template <class AnyCursor>
  static HWY_INLINE bool IsGroupBelow(const AnyCursor& cursor, size_t at, uint64_t limit,
                                      const CellWindow& window) {
    return at + kGroup <= cursor.size() && RowOf(cursor, at + kGroup - 1, window) < limit;
  }

  // Adds kGroup entries at a time, as long as all of them are below `limit`. Their products are
  // formed as vectors. Rounding errors are checked once for each group or, in speculation, once for
  // many groups.
  template <bool kOneWeight, class AnyCursor>
  static HWY_INLINE void ScatterSums(AnyCursor& cursor, uint64_t limit, const CellWindow& window,
                                     SideTable& side) {
    size_t done = 0;
    const auto more = [&](size_t at) { return IsGroupBelow(cursor, at, limit, window); };
    if constexpr (kSpeculatesInGroups<C, V>) {
      HWY_ALIGN double log[kSpeculativeEntries];
      while (more(done + kSpeculativeEntriesMin - kGroup)) {
        const size_t begin = done;
        if (!ShouldSpeculate(side)) {
          for (; done < begin + kSpeculativeEntries && more(done); done += kGroup) {
            AddGroup<kOneWeight>(cursor, done, window, side);
          }
          continue;
        }
        const auto add = [&] {
          done = AddEntriesSpeculatively<kOneWeight>(cursor, begin, limit, window, log);
        };
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
        AddSpeculatively(side, add, undo, add_checked);
      }
    }
    for (; more(done); done += kGroup) AddGroup<kOneWeight>(cursor, done, window, side);
    Advance(cursor, done, 1);
  }

  // Most and fewest entries of one speculation. With fewer, reading the flag costs more than it
  // saves.
  static constexpr size_t kSpeculativeEntries = 128;
  static constexpr size_t kSpeculativeEntriesMin = 16;

  // Adds the entries from `begin` on that are below `limit`: kSpeculativeEntries or, if there are
  // fewer, all of them. Saves the former cells to `log`, and returns where the entries end. Works
  // on copies, since the compiler must assume that stores to cells change what references refer to.
  template <bool kOneWeight, class AnyCursor>
  static HWY_INLINE size_t AddEntriesSpeculatively(const AnyCursor& entries, size_t begin,
                                                   uint64_t limit, const CellWindow& cells,
                                                   double* HWY_RESTRICT log) {
    const AnyCursor cursor = entries;
    const CellWindow window = cells;
    const size_t most = begin + kSpeculativeEntries;
    size_t at = begin;
    if (IsRun(cursor, at, limit, window)) {
      AddRunSpeculatively<kOneWeight, true>(cursor, at, window, log);
      return most;
    }
    for (; at < most && IsGroupBelow(cursor, at, limit, window); at += kGroup) {
      AddGroupSpeculatively<kOneWeight, true>(cursor, at, window, log + (at - begin));
    }
    if (at >= most) return at;
    // The rest is less than a group, so `log` has room for it. It is added here, too, because a
    // visit has few groups.
    for (; at < cursor.size() && RowOf(cursor, at, window) < limit; ++at) {
      double& cell = Values(window.values)[RowOf(cursor, at, window) - window.begin];
      log[at - begin] = cell;
      cell += C::Lift(EntryValues(cursor)[at], WeightOf(cursor, at));
    }
    return at;
  }

  // Returns whether kSpeculativeEntries rows follow one another. The first and the last row decide;
  // the rows between them, two thirds of the bytes of a full update, are not read.
  template <class AnyCursor>
  static HWY_INLINE bool IsRun(const AnyCursor& cursor, size_t at, uint64_t limit,
                               const CellWindow& window) {
    const auto* HWY_RESTRICT row = cursor.row + at;
    constexpr size_t kLast = kSpeculativeEntries - 1;
    return cursor.canonical && at + kLast < cursor.size() &&
           row[kGroup - 1] - row[0] == kGroup - 1 && row[kLast] - row[0] == kLast &&
           RowOf(cursor, at + kLast, window) < limit;
  }

  // Adds the entries of such rows. With kLog, saves the former cells to `log`.
  template <bool kOneWeight, bool kLog, class AnyCursor>
  static HWY_INLINE void AddRunSpeculatively(const AnyCursor& cursor, size_t at,
                                             const CellWindow& window, double* HWY_RESTRICT log) {
    const DoubleTag d;
    double* HWY_RESTRICT cells =
        reinterpret_cast<double*>(window.values) + (RowOf(cursor, at, window) - window.begin);
    for (size_t i = 0; i < kSpeculativeEntries; i += kLanes) {
      if (i * sizeof(V) % kLineBytes == 0) {
        PrefetchLine(reinterpret_cast<const char*>(EntryValues(cursor) + at + i) + kBytesAhead);
      }
      const auto before = hn::LoadU(d, cells + i);
      if (kLog) hn::StoreU(before, d, log + i);
      hn::StoreU(hn::Add(before, Products<kOneWeight>(cursor, at + i)), d, cells + i);
    }
  }

  // Adds a group. With kLog, saves the former cells to `log`.
  template <bool kOneWeight, bool kLog, class AnyCursor>
  static HWY_INLINE void AddGroupSpeculatively(const AnyCursor& cursor, size_t at,
                                               const CellWindow& window, double* HWY_RESTRICT log) {
    const DoubleTag d;
    double* HWY_RESTRICT cells = reinterpret_cast<double*>(window.values);
    const auto* HWY_RESTRICT row = cursor.row + at;
    PrefetchLine(row + kEntriesPrefetched);
    PrefetchLine(EntryValues(cursor) + at + kEntriesPrefetched);
    if (cursor.canonical && row[kGroup - 1] - row[0] == kGroup - 1) {
      double* HWY_RESTRICT first = cells + (RowOf(cursor, at, window) - window.begin);
      for (size_t i = 0; i < kGroup; i += kLanes) {
        const auto before = hn::LoadU(d, first + i);
        if (kLog) hn::StoreU(before, d, log + i);
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
      if (kLog) log[i] = cell;
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
    PrefetchLine(row + kEntriesPrefetched);
    PrefetchLine(value + kEntriesPrefetched);
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
        errors[i] = AddExact(cells[row_of(i) - window.begin], products[i]);
        any |= BitCast<uint64_t>(errors[i]);
      }
      lost = (any << 1) != 0;
    }
    if (HWY_UNLIKELY(lost)) PushErrors(row_of, errors, side);
    if constexpr (C::kHasRow) {
      uint64_t any = 0;
      for (size_t i = 0; i < kGroup; ++i) {
        errors[i] =
            AddExact(row_cells[row_of(i) - window.begin], C::LiftRow(WeightOf(cursor, at + i)));
        any |= BitCast<uint64_t>(errors[i]);
      }
      if (HWY_UNLIKELY((any << 1) != 0)) {
        for (size_t i = 0; i < kGroup; ++i) side.Push(row_of(i), 1, errors[i]);
      }
    }
  }

  // Pushes the errors of kGroup entries, level by level: the errors of one level do not depend on
  // each other, as the levels of one entry do.
  template <class RowOfEntry>
  static HWY_INLINE void PushErrors(const RowOfEntry& row_of, double* HWY_RESTRICT errors,
                                    SideTable& side) {
    ErrorCells* const cells = side.cells();
    if (cells == nullptr) {
      for (size_t i = 0; i < kGroup; ++i) side.Push(row_of(i), 0, errors[i]);
      return;
    }
    size_t at[kGroup];
    for (size_t i = 0; i < kGroup; ++i) at[i] = cells->IndexOf(row_of(i), 0);
    for (size_t k = 0;; ++k) {
      uint64_t any = 0;
      for (size_t i = 0; i < kGroup; ++i) any |= BitCast<uint64_t>(errors[i]);
      if ((any << 1) == 0) return;
      side.CountPushed();
      double* const HWY_RESTRICT level = cells->Level(k);
      if (level == nullptr) break;
      HWY_UNROLL(kGroup)
      for (size_t i = 0; i < kGroup; ++i) errors[i] = AddExact(level[at[i]], errors[i]);
    }
    for (size_t i = 0; i < kGroup; ++i) {
      if (errors[i] != 0.0) side.PushEntry(row_of(i), 0, errors[i]);
    }
  }

  template <class AnyCursor>
  static void Scatter(std::span<AnyCursor> cursors, uint64_t limit, const Prefetch& prefetch,
                      const CellWindow& window, SideTable& side) {
    constexpr bool kNarrow = std::is_same_v<AnyCursor, NarrowCursor>;
    for (size_t k = 0; k < cursors.size(); ++k) {
      if constexpr (!kNarrow) {
        if (prefetch.lines > 0 && k + prefetch.cursors < cursors.size()) {
          PrefetchEntries(cursors[k + prefetch.cursors], prefetch.lines,
                          C::kHasValues ? sizeof(V) : 0);
        }
      }
      if (!prefetch.cells.empty()) PrefetchPart(prefetch.cells, k, cursors.size());
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

  // Cursors that are added speculatively between two readings of the flag, so that a failed
  // speculation ends soon.
  static constexpr size_t kCursorsPerCheck = 32;

  // The speculative form of Scatter(): see CpuKernels.
  static bool ScatterSpeculatively(std::span<Cursor> cursors, uint64_t limit,
                                   const Prefetch& prefetch, const CellWindow& window) {
    for (size_t k = 0; k < cursors.size(); ++k) {
      if (k % kCursorsPerCheck == 0 && AnyRounded()) return false;
      if (prefetch.lines > 0 && k + prefetch.cursors < cursors.size()) {
        PrefetchEntries(cursors[k + prefetch.cursors], prefetch.lines, sizeof(V));
      }
      if (cursors[k].weights == nullptr) {
        ScatterSumsSpeculatively<true>(cursors[k], limit, window);
      } else {
        ScatterSumsSpeculatively<false>(cursors[k], limit, window);
      }
    }
    return !AnyRounded();
  }

  // Works on copies, as AddEntriesSpeculatively() does.
  template <bool kOneWeight>
  static HWY_INLINE void ScatterSumsSpeculatively(Cursor& entries, uint64_t limit,
                                                  const CellWindow& cells) {
    const Cursor cursor = entries;
    const CellWindow window = cells;
    size_t at = 0;
    while (IsGroupBelow(cursor, at, limit, window)) {
      if (IsRun(cursor, at, limit, window)) {
        AddRunSpeculatively<kOneWeight, false>(cursor, at, window, nullptr);
        at += kSpeculativeEntries;
        continue;
      }
      const size_t most = at + kSpeculativeEntries;
      for (; at < most && IsGroupBelow(cursor, at, limit, window); at += kGroup) {
        AddGroupSpeculatively<kOneWeight, false>(cursor, at, window, nullptr);
      }
    }
    for (; at < cursor.size() && cursor.row[at] < limit; ++at) {
      Values(window.values)[cursor.row[at] - window.begin] +=
          C::Lift(EntryValues(cursor)[at], WeightOf(cursor, at));
    }
    Advance(entries, at, 1);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace sparseagg
HWY_AFTER_NAMESPACE();

#endif  // SPARSEAGG_CPU_KERNELS_SCATTER_VALUES_INL_H_
