// The summing kernel of row_reduce.cu.
//
// In: sorted entries, cut into pieces; values [nnz, width] of each update. Out: what a sink makes
// of the exact sums of each piece.
//
// A warp takes 32 pieces, a lane each to look at where they begin, and their positions by 64: two
// for each lane, which finds the entry's update by binary search, once for the row and not in every
// thread of it, and leaves the place of its values in shared memory. Then lanes take columns: 16
// bytes of a row each (8 where rows are no multiple of 16, or of two-byte values). A row of 64 f32
// is half a warp, so two rows are summed side by side, rows of 4 f32 thirty-two; rows of more than
// 512 bytes are summed 512 bytes at a time. Four loads are under way in each lane before the first
// is added. Shared memory: 1.7 KB a warp, 13.3 KB a block of 8.
#ifndef SPARSEAGG_CUDA_KERNELS_ROWS_ROW_SUMS_CUH_
#define SPARSEAGG_CUDA_KERNELS_ROWS_ROW_SUMS_CUH_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/rows/row_pieces.h"
#include "cuda/kernels/rows/split_sum.h"
#include "cuda/kernels/slots.cuh"
#include "sparse/side_entry.h"

namespace sparseagg::gpu {

// True if products of V are summed in two 64-bit integers.
template <class V>
inline constexpr bool kSplits = ValueTraits<V>::kFloating && sizeof(V) <= 4;

// The sum of one column of a piece, whose products the window holds: the sum of 128 bits of a
// value type that needs it.
template <class V>
class SlotSum {
 public:
  SPARSEAGG_HOST_DEVICE bool Add(V value, float weight, int32_t lsb) {
    sum_ += FixedProduct(value, weight, lsb);
    return true;
  }
  SPARSEAGG_HOST_DEVICE Int128 Total(uint32_t) const { return sum_; }

 private:
  Int128 sum_ = 0;
};

template <class V>
class SplitSumOf : public SplitSum {
 public:
  SPARSEAGG_HOST_DEVICE bool Add(V value, float weight, int32_t lsb) {
    // Both factors and the product are exact: |lsb| is at most kSplitLsbMax.
    return SplitSum::Add(Widen(value) * (static_cast<double>(weight) * PowerOfTwo(-lsb)));
  }
};

template <class V>
using PieceSum = std::conditional_t<kSplits<V>, SplitSumOf<V>, SlotSum<V>>;

// The values of one lane, read at once from where they begin at a multiple of 8 bytes.
template <class V, uint32_t kValues>
struct alignas(kValues * sizeof(V)) Lane {
  V value[kValues];

  SPARSEAGG_DEVICE static Lane Load(const std::byte* from) {
    if constexpr (sizeof(Lane) == 16) {
      // An update with an odd number of entries has its values there.
      if (reinterpret_cast<uintptr_t>(from) % 16 != 0) {
        const auto* halves = reinterpret_cast<const Lane<V, kValues / 2>*>(from);
        Lane lane;
        for (uint32_t k = 0; k < kValues; ++k) {
          lane.value[k] = halves[k / (kValues / 2)].value[k % (kValues / 2)];
        }
        return lane;
      }
    }
    return *reinterpret_cast<const Lane*>(from);
  }
};

// Sink: Write(number, whole, column, sums, positions) for kValues columns of each piece, and
// Aside(run, column, product) for what the window does not hold.
template <class V, uint32_t kValues, class Sink>
struct SumPieces {
  static constexpr uint32_t kPieces = kWarpLanes;
  static constexpr uint32_t kPositions = 64;
  static constexpr uint32_t kAhead = 4;
  static constexpr uint32_t kLast = 1 << 8;  // the last position of its piece

  struct Shared {
    const std::byte* values[kPositions];
    uint64_t begin[kPieces];
    uint64_t run[kPieces];
    uint32_t first[kPieces + 1];  // positions of the pieces before, in this warp
    float weights[kPositions];
    uint32_t marks[kPositions];  // the piece, and kLast
    bool whole[kPieces];
  };
  struct Local {
    uint32_t length;
    uint32_t begin;  // positions of its group of lanes
    uint32_t end;
    uint32_t positions;  // added since the last piece was written
    PieceSum<V> sums[kValues];
  };

  SortedBatch<V> batch;
  RowPiecesView pieces;
  uint64_t numbers;  // of pieces
  bool later;        // the numbers are those of later pieces
  Sink sink;

  template <class Warp>
  SPARSEAGG_DEVICE void Run(Warp& warp) const {
    Shared& shared = warp.shared;
    warp.Each([&](unsigned lane, Local& local) {
      const uint64_t number = warp.index * kPieces + lane;
      const RowPiece piece = number >= numbers ? RowPiece{}
                             : later           ? pieces.Later(number)
                                               : pieces.First(number);
      shared.begin[lane] = piece.begin;
      shared.run[lane] = piece.run;
      shared.whole[lane] = piece.whole;
      local.length = static_cast<uint32_t>(piece.end - piece.begin);
    });
    warp.InclusiveSum([](Local& local) -> uint32_t& { return local.length; });
    warp.Each([&](unsigned lane, Local& local) {
      if (lane == 0) shared.first[0] = 0;
      shared.first[lane + 1] = local.length;
    });
    const uint32_t positions = shared.first[kPieces];
    const uint32_t lanes = batch.rule.width / kValues;
    for (uint32_t column = 0; column < lanes; column += kWarpLanes) {
      const Columns columns = ColumnsFrom(column, lanes);
      warp.Each([&](unsigned lane, Local& local) { Begin(shared, columns, lane, local); });
      for (uint32_t base = 0; base < positions; base += kPositions) {
        warp.Each([&](unsigned lane, Local&) { LookUp(shared, base, lane); });
        warp.Each([&](unsigned lane, Local& local) {
          AddUp(shared, warp.index, columns, base, lane, local);
        });
      }
    }
  }

 private:
  // Columns [first, first + group) of lanes; a warp has `groups` groups of them.
  struct Columns {
    uint32_t first;
    uint32_t group;
    uint32_t groups;
  };

  SPARSEAGG_DEVICE static Columns ColumnsFrom(uint32_t first, uint32_t lanes) {
    const uint32_t left = lanes - first;
    const uint32_t group = left < kWarpLanes ? left : kWarpLanes;
    return {first, group, kWarpLanes / group};
  }

  // Each group of lanes takes pieces that lie together.
  SPARSEAGG_DEVICE static void Begin(const Shared& shared, const Columns& columns, unsigned lane,
                                     Local& local) {
    const uint32_t group = lane / columns.group;
    const bool idle = group >= columns.groups;
    local.begin = idle ? 0 : shared.first[group * kPieces / columns.groups];
    local.end = idle ? 0 : shared.first[(group + 1) * kPieces / columns.groups];
    local.positions = 0;
    for (PieceSum<V>& sum : local.sums) sum = {};
  }

  SPARSEAGG_DEVICE void LookUp(Shared& shared, uint32_t base, unsigned lane) const {
    const uint64_t row_bytes = batch.rule.width * sizeof(V);
    for (uint32_t i = lane; i < kPositions; i += kWarpLanes) {
      const uint32_t position = base + i;
      if (position >= shared.first[kPieces]) return;
      uint32_t piece = 0;  // the last that does not begin behind it
      for (uint32_t step = kPieces / 2; step > 0; step /= 2) {
        if (shared.first[piece + step] <= position) piece += step;
      }
      const uint64_t e = batch.sorted.Entry(shared.begin[piece] + position - shared.first[piece]);
      const UpdateRef& update = batch.batch.updates[SourceOf(batch.batch, e)];
      shared.values[i] =
          static_cast<const std::byte*>(update.values) + (e - update.first) * row_bytes;
      shared.weights[i] = update.weight;
      shared.marks[i] = piece | (position + 1 == shared.first[piece + 1] ? kLast : 0);
    }
  }

  SPARSEAGG_DEVICE void AddUp(const Shared& shared, uint64_t warp, const Columns& columns,
                              uint32_t base, unsigned lane, Local& local) const {
    const uint32_t lane_of_row = columns.first + lane % columns.group;
    const uint64_t at = lane_of_row * sizeof(Lane<V, kValues>);
    const uint32_t begin = local.begin < base ? base : local.begin;
    const uint32_t end = local.end < base + kPositions ? local.end : base + kPositions;
    for (uint32_t position = begin; position < end; position += kAhead) {
      Lane<V, kValues> ahead[kAhead];
      SPARSEAGG_UNROLL
      for (uint32_t k = 0; k < kAhead; ++k) {
        if (position + k < end) {
          ahead[k] = Lane<V, kValues>::Load(shared.values[position + k - base] + at);
        }
      }
      SPARSEAGG_UNROLL
      for (uint32_t k = 0; k < kAhead; ++k) {
        if (position + k >= end) continue;
        const uint32_t i = position + k - base;
        const uint32_t piece = shared.marks[i] % kLast;
        Add(ahead[k], shared.weights[i], shared.run[piece], lane_of_row * kValues, local);
        if ((shared.marks[i] & kLast) == 0) continue;
        sink.Write(warp * kPieces + piece, shared.whole[piece], lane_of_row * kValues, local.sums,
                   local.positions);
        local.positions = 0;
        for (PieceSum<V>& sum : local.sums) sum = {};
      }
    }
  }

  SPARSEAGG_DEVICE void Add(const Lane<V, kValues>& values, float weight, uint64_t run,
                            uint32_t column, Local& local) const {
    ++local.positions;
    for (uint32_t k = 0; k < kValues; ++k) {
      if (!local.sums[k].Add(values.value[k], weight, batch.rule.lsb)) {
        sink.Aside(run, column + k, Lift(values.value[k], weight));
      }
    }
  }
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_ROWS_ROW_SUMS_CUH_
