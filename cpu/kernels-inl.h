// The definition of the kernels. Compiled by each of its sources once for every instruction set, in
// the namespace of that set (Highway's foreach_target); so there is no include guard of the usual
// kind.
#if defined(SPARSEAGG_CPU_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARSEAGG_CPU_KERNELS_INL_H_
#undef SPARSEAGG_CPU_KERNELS_INL_H_
#else
#define SPARSEAGG_CPU_KERNELS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/cells.h"
#include "cpu/exact_cell.h"
#include "cpu/kernels.h"
#include "sparse/ops/all.h"

HWY_BEFORE_NAMESPACE();
namespace sparseagg {
namespace HWY_NAMESPACE {  // NOLINT(google-readability-namespace-comments)
namespace hn = hwy::HWY_NAMESPACE;

// Entries that are added between two looks at their rounding errors.
inline constexpr size_t kGroup = 8;

using DoubleTag = hn::CappedTag<double, kGroup>;
inline constexpr size_t kLanes = hn::MaxLanes(DoubleTag());

HWY_INLINE hn::Vec<DoubleTag> LoadWide(DoubleTag d, const double* values) {
  return hn::LoadU(d, values);
}
HWY_INLINE hn::Vec<DoubleTag> LoadWide(DoubleTag d, const float* values) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, DoubleTag>(), values));
}
HWY_INLINE hn::Vec<DoubleTag> LoadWide(DoubleTag d, const BF16* values) {
  const hn::Rebind<float, DoubleTag> df;
  const hn::Rebind<hwy::bfloat16_t, DoubleTag> db;
  const auto narrow = hn::LoadU(db, reinterpret_cast<const hwy::bfloat16_t*>(values));
  return hn::PromoteTo(d, hn::PromoteTo(df, narrow));
}
HWY_INLINE hn::Vec<DoubleTag> LoadWide(DoubleTag d, const F16* values) {
  const hn::Rebind<float, DoubleTag> df;
  const hn::Rebind<hwy::float16_t, DoubleTag> dh;
  const auto narrow = hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(values));
  return hn::PromoteTo(d, hn::PromoteTo(df, narrow));
}

// True when a product is so large that it must go to the side table whole; only f64 has such.
template <class V>
HWY_INLINE bool AnyBeyondCells(DoubleTag d, hn::Vec<DoubleTag> products) {
  if constexpr (!std::is_same_v<V, double>) return false;
  return !hn::AllTrue(d, hn::Lt(hn::Abs(products), hn::Set(d, kAddendLimit)));
}

// weight * value, never -0.0. With f64 values the product may be a tiny negative number that rounds to
// -0.0, also when a zero is added in the same rounding.
template <class V>
HWY_INLINE hn::Vec<DoubleTag> Product(DoubleTag d, hn::Vec<DoubleTag> weight, const V* values) {
  if constexpr (std::is_same_v<V, double>) {
    return hn::Add(hn::Mul(weight, LoadWide(d, values)), hn::Zero(d));
  } else {
    return hn::MulAdd(weight, LoadWide(d, values), hn::Zero(d));
  }
}

// sums += addends, lane by lane; returns the rounding errors.
HWY_INLINE hn::Vec<DoubleTag> AddExact(hn::Vec<DoubleTag>& sums, hn::Vec<DoubleTag> addends) {
  const auto before = sums;
  sums = hn::Add(before, addends);
  const auto taken = hn::Sub(sums, before);
  return hn::Add(hn::Sub(before, hn::Sub(sums, taken)), hn::Sub(addends, taken));
}

HWY_INLINE bool AllZero(DoubleTag d, hn::Vec<DoubleTag> v) {
  return hn::AllTrue(d, hn::Eq(v, hn::Zero(d)));
}

// lanes[mask]: the positions of the bits of `mask`, ascending, then the others.
struct CompressTable {
  uint32_t lanes[256][8];
  constexpr CompressTable() : lanes() {
    for (uint32_t mask = 0; mask < 256; ++mask) {
      uint32_t n = 0;
      for (uint32_t set = 0; set < 2; ++set) {
        for (uint32_t bit = 0; bit < 8; ++bit) {
          if ((mask >> bit & 1) != set) lanes[mask][n++] = bit;
        }
      }
    }
  }
};
inline constexpr CompressTable kCompressTable;

// The lanes of `mask`, moved together at the front. Highway 1.0.3's own Compress() copies its table
// to the stack at every call when g++ 12 compiles it: 30 ns instead of 1.
HWY_INLINE auto CompressLanes(hn::RebindToUnsigned<DoubleTag> du, size_t mask) {
  const hn::Rebind<uint32_t, DoubleTag> narrow;
  return hn::IndicesFromVec(du, hn::PromoteTo(du, hn::LoadU(narrow, kCompressTable.lanes[mask])));
}

template <ValueSlots kValues, RowSlot kRow, class V>
struct Kernels {
  using C = Cells<kValues, kRow, V>;
  using ValueCell = typename C::Value;
  using RowCell = typename C::Row;

  static ValueCell* Values(std::byte* at) { return reinterpret_cast<ValueCell*>(at); }
  static const ValueCell* Values(const std::byte* at) {
    return reinterpret_cast<const ValueCell*>(at);
  }
  static RowCell* Rows(std::byte* at) { return reinterpret_cast<RowCell*>(at); }
  static const RowCell* Rows(const std::byte* at) { return reinterpret_cast<const RowCell*>(at); }

  static const V* EntryValues(const Cursor& cursor) {
    return reinterpret_cast<const V*>(cursor.value);
  }

  static float WeightOf(const Cursor& cursor, size_t entry) {
    return cursor.weights == nullptr ? cursor.weight : cursor.weights[entry];
  }

  static void Advance(Cursor& cursor, size_t entries, size_t width) {
    cursor.row += entries;
    if (C::kHasValues) cursor.value += entries * width * sizeof(V);
    if (cursor.weights != nullptr) cursor.weights += entries;
  }

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

  // kGroup entries at a time, as long as all of them are below `limit`. Their products are formed
  // as vectors; rounding errors are looked at once a group.
  template <bool kOneWeight>
  static HWY_INLINE void ScatterSums(Cursor& cursor, uint64_t limit, const CellWindow& window,
                                     SideTable& side) {
    const DoubleTag d;
    double* HWY_RESTRICT cells = reinterpret_cast<double*>(window.values);
    [[maybe_unused]] double* HWY_RESTRICT row_cells = reinterpret_cast<double*>(window.row_cells);
    const auto one_weight = hn::Set(d, static_cast<double>(std::fabs(cursor.weight)));
    const uint64_t* HWY_RESTRICT row = cursor.row;
    const V* HWY_RESTRICT value = EntryValues(cursor);
    const float* HWY_RESTRICT weights = cursor.weights;
    size_t done = 0;
    const size_t size = cursor.size();
    for (; done + kGroup <= size && row[done + kGroup - 1] < limit; done += kGroup) {
      HWY_ALIGN double products[kGroup];
      HWY_ALIGN double errors[kGroup];
      bool beyond = false;
      for (size_t i = 0; i < kGroup; i += kLanes) {
        const auto weight = kOneWeight ? one_weight : hn::Abs(LoadWide(d, weights + done + i));
        const auto product = Product(d, weight, value + done + i);
        beyond |= AnyBeyondCells<V>(d, product);
        hn::Store(product, d, products + i);
      }
      if (HWY_UNLIKELY(beyond)) {
        for (size_t i = done; i < done + kGroup; ++i) {
          AddOne(row[i], value + i, kOneWeight ? cursor.weight : weights[i], window, side);
        }
        continue;
      }
      bool lost;
      const uint64_t first = row[done] - window.begin;
      if (cursor.canonical && row[done + kGroup - 1] - row[done] == kGroup - 1) {
        auto any = hn::Zero(d);  // errors are or-ed as bits
        for (size_t i = 0; i < kGroup; i += kLanes) {
          auto sums = hn::LoadU(d, cells + first + i);
          const auto error = AddExact(sums, hn::Load(d, products + i));
          hn::StoreU(sums, d, cells + first + i);
          hn::Store(error, d, errors + i);
          any = hn::Or(any, error);
        }
        lost = !AllZero(d, any);
      } else {
        uint64_t any = 0;
        for (size_t i = 0; i < kGroup; ++i) {
          errors[i] = C::AddExact(cells[row[done + i] - window.begin], products[i]);
          any |= BitCast<uint64_t>(errors[i]);
        }
        lost = (any << 1) != 0;
      }
      if (HWY_UNLIKELY(lost)) {
        for (size_t i = 0; i < kGroup; ++i) side.Push(row[done + i], 0, errors[i]);
      }
      if constexpr (C::kHasRow) {
        uint64_t any = 0;
        for (size_t i = 0; i < kGroup; ++i) {
          errors[i] = C::AddExact(row_cells[row[done + i] - window.begin],
                                  C::LiftRow(kOneWeight ? cursor.weight : weights[done + i]));
          any |= BitCast<uint64_t>(errors[i]);
        }
        if (HWY_UNLIKELY((any << 1) != 0)) {
          for (size_t i = 0; i < kGroup; ++i) side.Push(row[done + i], 1, errors[i]);
        }
      }
    }
    Advance(cursor, done, 1);
  }

  static void Prefetch(const Cursor& cursor, uint32_t lines) {
    const auto* row = reinterpret_cast<const char*>(cursor.row);
    for (uint32_t i = 0; i < lines; ++i) __builtin_prefetch(row + 64 * i);
    if constexpr (C::kHasValues) {
      const uint32_t value_lines = (lines * sizeof(V) + 7) / 8;
      const auto* value = reinterpret_cast<const char*>(cursor.value);
      for (uint32_t i = 0; i < value_lines; ++i) __builtin_prefetch(value + 64 * i);
    }
  }

  static void Scatter(std::span<Cursor> cursors, uint64_t limit, uint32_t prefetch_lines,
                      const CellWindow& window, SideTable& side) {
    for (size_t k = 0; k < cursors.size(); ++k) {
      if (prefetch_lines > 0 && k + 1 < cursors.size()) Prefetch(cursors[k + 1], prefetch_lines);
      Cursor& cursor = cursors[k];
      if constexpr (C::kInexactValues) {
        if (cursor.weights == nullptr) {
          ScatterSums<true>(cursor, limit, window, side);
        } else {
          ScatterSums<false>(cursor, limit, window, side);
        }
      }
      size_t done = 0;
      const size_t size = cursor.size();
      const V* value = EntryValues(cursor);
      for (; done < size && cursor.row[done] < limit; ++done) {
        AddOne(cursor.row[done], value + done, WeightOf(cursor, done), window, side);
      }
      Advance(cursor, done, 1);
    }
  }

  // ---- Rows of several values.

  // cells[c] += weight * values[c].
  static HWY_INLINE void AddRow(uint64_t row, const V* HWY_RESTRICT values, float weight,
                                Columns columns, ValueCell* HWY_RESTRICT cells, SideTable& side) {
    if constexpr (C::kHasValues) {
      uint32_t c = columns.begin;
      if constexpr (C::kInexactValues) {
        const DoubleTag d;
        const auto factor = hn::Set(d, static_cast<double>(std::fabs(weight)));
        for (; c + kLanes <= columns.end; c += kLanes) {
          const auto product = Product(d, factor, values + c);
          if (HWY_UNLIKELY(AnyBeyondCells<V>(d, product))) {
            AddRowSlowly(row, values, weight, {c, c + static_cast<uint32_t>(kLanes)}, cells, side);
            continue;
          }
          auto sums = hn::LoadU(d, cells + c);
          const auto error = AddExact(sums, product);
          hn::StoreU(sums, d, cells + c);
          if (HWY_UNLIKELY(!AllZero(d, error))) {
            HWY_ALIGN double errors[kLanes];
            hn::Store(error, d, errors);
            for (uint32_t i = 0; i < kLanes; ++i) side.Push(row, c + i, errors[i]);
          }
        }
      }
      AddRowSlowly(row, values, weight, {c, columns.end}, cells, side);
    }
  }

  static void AddRowSlowly(uint64_t row, const V* values, float weight, Columns columns,
                           ValueCell* cells, SideTable& side) {
    for (uint32_t c = columns.begin; c < columns.end; ++c) {
      C::Join(cells[c], C::LiftChecked(values[c], weight, row, c, side), row, c, side);
    }
  }

  // What is fetched while a row is added: rows from memory, cells from the second cache.
  static constexpr size_t kRowsAhead = 8;
  static constexpr size_t kCellsAhead = 2;
  static constexpr size_t kPrefetchBytesMax = 1024;
  static void PrefetchRow(const std::byte* at, size_t bytes) {
    for (size_t line = 0; line < std::min(bytes, kPrefetchBytesMax); line += 64) {
      __builtin_prefetch(reinterpret_cast<const char*>(at) + line);
    }
  }

  static void ScatterRows(Cursor& cursor, uint64_t limit, uint32_t width, Columns columns,
                          const CellWindow& window, SideTable& side) {
    const V* values = EntryValues(cursor);
    size_t done = 0;
    const size_t size = cursor.size();
    for (; done < size && cursor.row[done] < limit; ++done) {
      const uint64_t row = cursor.row[done];
      const float weight = WeightOf(cursor, done);
      if constexpr (C::kHasValues) {
        if (done + kRowsAhead < size) {
          PrefetchRow(cursor.value + (done + kRowsAhead) * width * sizeof(V), width * sizeof(V));
        }
        if (done + kCellsAhead < size && cursor.row[done + kCellsAhead] < limit) {
          const uint64_t next = cursor.row[done + kCellsAhead] - window.begin;
          PrefetchRow(window.values + next * width * C::kValueBytes, width * C::kValueBytes);
        }
        AddRow(row, values + done * width, weight, columns,
               Values(window.values) + (row - window.begin) * width, side);
      }
      // The row's own cell belongs to whoever has its first column.
      if constexpr (C::kHasRow) {
        if (columns.begin == 0) {
          C::JoinRow(Rows(window.row_cells)[row - window.begin], C::LiftRow(weight), row, width,
                     side);
        }
      }
    }
    Advance(cursor, done, width);
  }

  // ---- Cells of an earlier batch.

  static void JoinRows(uint64_t row, uint32_t width, const std::byte* from_values,
                       const std::byte* from_row, std::byte* values, std::byte* row_cell,
                       SideTable& side) {
    if constexpr (C::kHasValues) {
      for (uint32_t c = 0; c < width; ++c) {
        C::Join(Values(values)[c], Values(from_values)[c], row, c, side);
      }
    }
    if constexpr (C::kHasRow) C::JoinRow(*Rows(row_cell), *Rows(from_row), row, width, side);
  }

  static void AdvanceRun(RunCursor& run, size_t rows, uint32_t width) {
    run.row += rows;
    run.value += rows * width * C::kValueBytes;
    run.row_cell += rows * C::kRowBytes;
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
    const hn::RebindToUnsigned<DoubleTag> du;
    auto* cells = reinterpret_cast<double*>(window.values);
    auto* out_cells = reinterpret_cast<double*>(out.values);
    const auto empty = hn::Set(du, uint64_t{1} << 63);
    size_t n = 0;
    for (; at + kLanes <= rows && n + kLanes <= rows_max; at += kLanes) {
      const auto sums = hn::LoadU(d, cells + at);
      const auto held = hn::Ne(hn::BitCast(du, sums), empty);
      uint8_t mask[8];
      hn::StoreMaskBits(du, held, mask);
      const auto lanes = CompressLanes(du, mask[0]);
      hn::StoreU(hn::TableLookupLanes(hn::Iota(du, window.begin + at), lanes), du, out.rows + n);
      hn::StoreU(hn::BitCast(d, hn::TableLookupLanes(hn::BitCast(du, sums), lanes)), d,
                 out_cells + n);
      n += hn::CountTrue(du, held);
      if (kEmpty) hn::StoreU(hn::BitCast(d, empty), d, cells + at);
    }
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

  // ---- Sparse windows.

  static bool Pack(Cursor& cursor, uint64_t limit, uint32_t width, PackedWindow& packed,
                   SideTable& side) {
    const V* values = EntryValues(cursor);
    const size_t size = std::min(cursor.size(), packed.capacity - packed.size);
    size_t done = 0;
    for (; done < size && cursor.row[done] < limit; ++done) {
      const uint64_t row = cursor.row[done];
      const size_t position = packed.size;
      packed.keys[position] = packed.KeyOf(row);
      if (packed.drop > 0) packed.rows[position] = row;
      const float weight = WeightOf(cursor, done);
      if (width == 1) {
        if constexpr (C::kHasValues) {
          Values(packed.values.data())[position] =
              C::LiftChecked(values[done], weight, row, 0, side);
        }
        if constexpr (C::kHasRow) Rows(packed.row_cells.data())[position] = C::LiftRow(weight);
      } else {
        packed.refs[position] = {reinterpret_cast<const std::byte*>(values + done * width), nullptr,
                                 weight};
      }
      ++packed.size;
    }
    Advance(cursor, done, width);
    return cursor.row == cursor.end || *cursor.row >= limit;
  }

  static bool PackRun(RunCursor& run, uint64_t limit, uint32_t width, PackedWindow& packed) {
    const size_t size = std::min(run.size(), packed.capacity - packed.size);
    size_t done = 0;
    for (; done < size && run.row[done] < limit; ++done) {
      const uint64_t row = run.row[done];
      const size_t position = packed.size;
      packed.keys[position] = packed.KeyOf(row);
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
      if constexpr (C::kHasValues) std::fill_n(Values(values), width, C::EmptyValue());
      if constexpr (C::kHasRow) *Rows(row_cell) = C::EmptyRow();
      for (; at < packed.size && packed.SameRow(keys[at], key); ++at) {
        if (at + kRowsAhead < packed.size) {
          PrefetchRow(packed.refs[packed.PositionOf(keys[at + kRowsAhead])].values,
                      width * sizeof(V));
        }
        const RowRef& ref = packed.refs[packed.PositionOf(keys[at])];
        if (ref.row_cell != nullptr) {
          JoinRows(row, width, ref.values, ref.row_cell, values, row_cell, side);
          continue;
        }
        AddRow(row, reinterpret_cast<const V*>(ref.values), ref.weight, {0, width}, Values(values),
               side);
        if constexpr (C::kHasRow) {
          C::JoinRow(*Rows(row_cell), C::LiftRow(ref.weight), row, width, side);
        }
      }
      ++n;
    }
    return n;
  }
};

// ---- Results.

// Sums and weighted means of f32 and f64 without side entries, as vectors. Returns how many values
// it has done; the rest is the caller's.
template <class Op, class V>
HWY_INLINE size_t LowerVectors(const double* cells, size_t n, double total_weight, V* out,
                               uint64_t& infinite_values) {
  if constexpr ((std::is_same_v<V, float> || std::is_same_v<V, double>)&&Op::kValues ==
                    ValueSlots::kExactSum &&
                Op::kRowSlot == RowSlot::kNone) {
    const DoubleTag d;
    const hn::Rebind<V, DoubleTag> dv;
    // Highway without vectors demotes what is beyond the range to the largest number.
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

  // LowerValue() wants value and row of one type: this one holds either.
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

  static absl::Status Lower(const ReduceSpec& spec, double total_weight, const CellBlock& block,
                            size_t n, SideRange side, void* out, uint64_t& infinite_values) {
    const uint32_t width = spec.layout.row_width;
    const uint32_t result_width = C::kHasValues ? width : 1;
    auto* results = static_cast<R*>(out);
    const size_t size = n * result_width;
    size_t i = 0;
    if constexpr (C::kInexactValues) {
      if (side.empty()) {
        i = LowerVectors<Op, V>(reinterpret_cast<const double*>(block.values), size, total_weight,
                                results, infinite_values);
      }
    }
    auto side_at = side.begin();
    auto column = static_cast<uint32_t>(i % result_width);  // where the vectors have stopped
    for (size_t row = i / result_width; row < n; ++row, column = 0) {
      while (side_at != side.end() && side_at->row < block.rows[row]) ++side_at;
      auto end = side_at;
      while (end != side.end() && end->row == block.rows[row]) ++end;
      const SideRange of_row(side_at, end);
      const Either row_value = RowValue(block.row_cells, row, OfColumn(of_row, width));
      for (; column < result_width; ++column, ++i) {
        const Lowered lowered =
            LowerValue<Op, V>(Value(block.values, i, OfColumn(of_row, column)), row_value,
                              total_weight, spec.integer_overflow, results + i);
        if (lowered == Lowered::kOverflow) {
          return IntegerOverflowError(spec, block.rows[row], column);
        }
        infinite_values += lowered == Lowered::kInfinite ? 1 : 0;
      }
    }
    return absl::OkStatus();
  }
};

template <class Op, class V>
const CpuKernels* KernelTable() {
  using K = Kernels<Op::kValues, Op::kRowSlot, V>;
  static constexpr CpuKernels kTable = {
      .value_bytes = K::C::kValueBytes,
      .row_bytes = K::C::kRowBytes,
      .per_update = kPerUpdate<Op> || Op::kRowSlot != RowSlot::kNone,
      .clear = &K::Clear,
      .scatter = &K::Scatter,
      .scatter_rows = &K::ScatterRows,
      .scatter_run = &K::ScatterRun,
      .is_held = &K::IsHeld,
      .collect = &K::Collect,
      .copy = &K::Copy,
      .pack = &K::Pack,
      .pack_run = &K::PackRun,
      .sum_sorted = &K::SumSorted,
      .lower = &ResultKernels<Op, V>::Lower,
  };
  return &kTable;
}

template <class V>
const CpuKernels* TableOf(std::string_view op) {
  const CpuKernels* found = nullptr;
  AllOps::With(op, [&](auto tag) { found = KernelTable<decltype(tag), V>(); });
  return found;
}

}  // namespace HWY_NAMESPACE
}  // namespace sparseagg
HWY_AFTER_NAMESPACE();

#endif  // SPARSEAGG_CPU_KERNELS_INL_H_
