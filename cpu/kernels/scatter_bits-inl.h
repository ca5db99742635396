// Adds entries of one value, whose rows are the bits of a bitmap, to a window with a cell for every
// coordinate. Compiled once for every instruction set: see simd-inl.h.
#if defined(SPARSEAGG_CPU_KERNELS_SCATTER_BITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARSEAGG_CPU_KERNELS_SCATTER_BITS_INL_H_
#undef SPARSEAGG_CPU_KERNELS_SCATTER_BITS_INL_H_
#else
#define SPARSEAGG_CPU_KERNELS_SCATTER_BITS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cpu/kernels/kernels.h"
#include "cpu/kernels/scatter_values-inl.h"
#include "cpu/kernels/simd-inl.h"
#include "cpu/kernels/speculative-inl.h"
#include "cpu/state/cells.h"
#include "cpu/state/side_table.h"

HWY_BEFORE_NAMESPACE();
namespace sparseagg {
namespace HWY_NAMESPACE {  // NOLINT(google-readability-namespace-comments)
namespace hn = hwy::HWY_NAMESPACE;

template <ValueSlots kValues, RowSlot kRow, class V>
struct ScatterBitsKernels : ScatterValuesKernels<kValues, kRow, V> {
  using Base = ScatterValuesKernels<kValues, kRow, V>;
  using C = typename Base::C;
  using Base::AddOne;
  using Base::kBytesAhead;

  // Values whose addends are formed at once: two vectors of doubles, or one of floats.
  static constexpr size_t kPair = 2 * kLanes;
  struct Pair {
    // Not defaulted: g++ compiles defaulted constructors for the baseline instruction set, and
    // those of NEON's vectors cannot be called from there.
    HWY_INLINE Pair() {}  // NOLINT(modernize-use-equals-default)
    HWY_INLINE Pair(hn::Vec<DoubleTag> a, hn::Vec<DoubleTag> b) : first(a), second(b) {}
    hn::Vec<DoubleTag> first;
    hn::Vec<DoubleTag> second;
  };
  // Pairs that are added between two checks of their errors.
  static constexpr size_t kPairs = 2;
  static constexpr size_t kTileRows = kPairs * kPair;
  // Rows of as many whole tiles as fit eight bytes, of which up to seven bits belong to other rows.
  static constexpr size_t kWordRows = 57 / kTileRows * kTileRows;

  // The bits of a bitmap, and the values that belong to them.
  struct BitsCursor {
    const PackedRows::Bits* rows;
    const V* value;  // of the next bit

    // Returns the bits of rows [row, row + kWordRows), which may begin before the first row, by
    // less than a tile, and end after the last. The bits above them are unspecified.
    HWY_INLINE uint64_t WordAt(uint64_t row) const {
      uint64_t word;
      if (row < rows->first) {
        std::memcpy(&word, rows->bytes, sizeof(word));
        word <<= rows->first - row;
      } else {
        const uint64_t bit = row - rows->first;
        std::memcpy(&word, rows->bytes + bit / 8, sizeof(word));
        word >>= bit % 8;
      }
      const uint64_t left = rows->last + 1 - row;
      return left < kWordRows ? word & ((uint64_t{1} << left) - 1) : word;
    }
    HWY_INLINE uint64_t TileAt(uint64_t row) const {
      return WordAt(row) & ((uint64_t{1} << kTileRows) - 1);
    }
  };

  static uint64_t ScatterBits(const PackedRows::Bits& rows, const std::byte* values, float weight,
                              const CellWindow& window, uint64_t limit, SideTable& side) {
    BitsCursor cursor{&rows, reinterpret_cast<const V*>(values)};
    uint64_t row = rows.first;
    if constexpr (C::kInexactValues && !C::kHasRow) {
      // Cells of whole tiles are aligned, if those of the window are.
      row -= (row - window.begin) % kTileRows;
      const bool full = rows.last - rows.first + 1 == rows.count;
      // With a weight of 0, products of negative values would be -0.0: those are added one by one.
      if (weight != 0) {
        full ? AddTiles<true>(cursor, row, weight, window, limit, side)
             : AddTiles<false>(cursor, row, weight, window, limit, side);
      }
    }
    for (; row <= rows.last; row += kTileRows) AddTileScalar(cursor, row, weight, window, side);
    return static_cast<uint64_t>(cursor.value - reinterpret_cast<const V*>(values));
  }

  // Adds the tiles from `row` on that are within the window and have rows, speculatively where that
  // pays. REQUIRES: weight != 0.
  template <bool kFull>
  static HWY_INLINE void AddTiles(BitsCursor& cursor, uint64_t& row, float weight,
                                  const CellWindow& window, uint64_t limit, SideTable& side) {
    const uint64_t tiles =
        std::min((cursor.rows->last - row) / kTileRows + 1, (limit - row) / kTileRows);
    const uint64_t end = row + tiles * kTileRows;
    if constexpr (kSpeculatesInGroups<C, V>) {
      HWY_ALIGN double log[kSpeculativeCells];
      while (end - row >= kSpeculativeCellsMin && ShouldSpeculate(side)) {
        const BitsCursor before = cursor;
        const uint64_t begin = row;
        const uint64_t size = std::min<uint64_t>(end - begin, kSpeculativeCells);
        const auto add = [&] {
          cursor = AddTilesSpeculatively<kFull>(before, begin, begin + size, weight, window, log);
        };
        double* cells = reinterpret_cast<double*>(window.values) + (begin - window.begin);
        const auto undo = [&] { std::copy_n(log, size, cells); };
        const auto add_checked = [&] {
          BitsCursor again = before;
          for (uint64_t r = begin; r < begin + size; r += kTileRows) {
            AddTile<kFull>(again, r, weight, window, side);
          }
        };
        AddSpeculatively(side, add, undo, add_checked);
        row = begin + size;
      }
    }
    for (; row < end; row += kTileRows) AddTile<kFull>(cursor, row, weight, window, side);
  }

  // Adds tiles, saves the former cells to `log`, and returns the cursor behind the tiles. Works on
  // copies, as AddEntriesSpeculatively() does.
  template <bool kFull>
  static HWY_INLINE BitsCursor AddTilesSpeculatively(const BitsCursor& from, uint64_t begin,
                                                     uint64_t end, float weight,
                                                     const CellWindow& window,
                                                     double* HWY_RESTRICT log) {
    const DoubleTag d;
    BitsCursor cursor = from;
    double* HWY_RESTRICT cells = reinterpret_cast<double*>(window.values) + (begin - window.begin);
    const auto factor = hn::Set(d, static_cast<double>(std::fabs(weight)));
    uint64_t bits = 0;
    uint64_t word_end = begin;
    for (uint64_t row = begin; row < end; row += kTileRows, bits >>= kTileRows) {
      if (row == word_end) {
        bits = cursor.WordAt(row);
        word_end += kWordRows;
      }
      PrefetchAhead(cursor);
      size_t used = 0;
      for (size_t p = 0; p < kPairs; ++p) {
        const Pair addends = AddendsOf<kFull>(bits, p, cursor.value, used, factor);
        const auto first = hn::LoadU(d, cells);
        const auto second = hn::LoadU(d, cells + kLanes);
        hn::StoreU(first, d, log);
        hn::StoreU(second, d, log + kLanes);
        hn::StoreU(hn::Add(first, addends.first), d, cells);
        hn::StoreU(hn::Add(second, addends.second), d, cells + kLanes);
        cells += kPair;
        log += kPair;
      }
      cursor.value += used;
    }
    return cursor;
  }

  template <bool kFull>
  static HWY_INLINE void AddTile(BitsCursor& cursor, uint64_t row, float weight,
                                 const CellWindow& window, SideTable& side) {
    const DoubleTag d;
    double* HWY_RESTRICT cells = reinterpret_cast<double*>(window.values) + (row - window.begin);
    const uint64_t bits = cursor.TileAt(row);
    PrefetchAhead(cursor);
    const auto factor = hn::Set(d, static_cast<double>(std::fabs(weight)));
    Pair addends[kPairs];
    Pair before[kPairs];
    bool beyond = false;
    size_t used = 0;
    for (size_t p = 0; p < kPairs; ++p) {
      addends[p] = AddendsOf<kFull>(bits, p, cursor.value, used, factor);
      beyond |= AnyBeyondCells<V>(d, addends[p].first) || AnyBeyondCells<V>(d, addends[p].second);
    }
    if (HWY_UNLIKELY(beyond)) return AddTileScalar(cursor, row, weight, window, side);
    auto lost = hn::Zero(BitsTag());
    for (size_t p = 0; p < kPairs; ++p) {
      double* HWY_RESTRICT at = cells + p * kPair;
      before[p] = {hn::LoadU(d, at), hn::LoadU(d, at + kLanes)};
      hn::StoreU(SumsIfExact(before[p].first, addends[p].first, lost), d, at);
      hn::StoreU(SumsIfExact(before[p].second, addends[p].second, lost), d, at + kLanes);
    }
    cursor.value += used;
    if (HWY_LIKELY(!AnyLost(lost))) return;
    HWY_ALIGN double errors[kTileRows];
    for (size_t p = 0; p < kPairs; ++p) {
      const size_t at = p * kPair;
      StoreSumsAndErrors(d, before[p].first, addends[p].first, cells + at, errors + at);
      StoreSumsAndErrors(d, before[p].second, addends[p].second, cells + at + kLanes,
                         errors + at + kLanes);
    }
    for (size_t i = 0; i < kTileRows; ++i) side.Push(row + i, 0, errors[i]);
  }

  static void AddTileScalar(BitsCursor& cursor, uint64_t row, float weight,
                            const CellWindow& window, SideTable& side) {
    for (uint64_t bits = cursor.TileAt(row); bits != 0; bits &= bits - 1) {
      AddOne(row + std::countr_zero(bits), cursor.value++, weight, window, side);
    }
  }

  static HWY_INLINE void PrefetchAhead(const BitsCursor& cursor) {
    for (size_t byte = 0; byte < kTileRows * sizeof(V); byte += kLineBytes) {
      PrefetchLine(reinterpret_cast<const char*>(cursor.value) + kBytesAhead + byte);
    }
  }

  // Returns what pair `p` of a tile adds, by its part of the tile's bits. Its values begin at
  // `used`, which is advanced. Rows without a bit get -0.0, which changes no cell, not even an
  // empty one's -0.0.
  template <bool kFull>
  static HWY_INLINE Pair AddendsOf(uint64_t tile_bits, size_t p, const V* HWY_RESTRICT values,
                                   size_t& used, hn::Vec<DoubleTag> factor) {
    constexpr uint64_t kAll = (uint64_t{1} << kPair) - 1;
    constexpr uint64_t kAllLanes = (uint64_t{1} << kLanes) - 1;
    const DoubleTag d;
    const uint64_t bits = tile_bits >> (p * kPair) & kAll;
    const V* HWY_RESTRICT value = values + used;
    if (kFull && bits == kAll) {
      used += kPair;
      return {Product(d, factor, value), Product(d, factor, value + kLanes)};
    }
    used += std::popcount(bits);
#if HWY_TARGET != HWY_SCALAR
    if constexpr (!std::is_same_v<V, double>) {
      const FloatTag df;
      const hn::Half<FloatTag> half;
      const auto packed = hn::Add(LoadFloats(df, value), hn::Zero(df));  // -0.0 counts as +0.0
      const auto floats = SpreadOver(df, bits, packed);
      return {hn::Mul(factor, hn::PromoteTo(d, hn::LowerHalf(half, floats))),
              hn::Mul(factor, hn::PromoteTo(d, hn::UpperHalf(half, floats)))};
    }
#endif
    const auto first = Product(d, factor, value);
    const auto second = Product(d, factor, value + std::popcount(bits & kAllLanes));
    return {SpreadOver(d, bits & kAllLanes, first), SpreadOver(d, bits >> kLanes, second)};
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace sparseagg
HWY_AFTER_NAMESPACE();

#endif  // SPARSEAGG_CPU_KERNELS_SCATTER_BITS_INL_H_
