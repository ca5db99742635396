// In: a batch with rows of `width` values. Out: a run, rows [size] and slots [size, slots()]; or
// rows [size] and results [size, result width].
//
// The rows' ids are sorted (sort_entries.cu), runs are found (sorted_tiles.cu) and cut
// (row_pieces.h), and row_sums.cuh sums up the pieces. Source: the backward kernel of FBGEMM's
// table batched embeddings (sort, runs, long runs split); the sums are exact here, and long runs
// are split at fixed places.
//
// Bytes, for N entries, U rows held and B bytes of values in a row: the sort moves 16 N to pack and
// 16 N for 8 bits of the rows, finding runs 16 N + 16 U. The sums read 8 N for the words and B N
// for the values, once, and write
//
//   results   (8 + B) U         where the batch is the round: 264 bytes a row of 64 f32
//   slots     (8 + 16 width) U  otherwise: 1032 bytes
//
// Of 6.25 * 10^6 rows of 64 f32 into 10^7, held by 4.65 * 10^6, results move 1.65 + 1.23 GB: 0.67
// ms at 4.3 TB/s, with the sort and the runs about 0.25 ms more (cost_model.cc). Slots would be 4.8
// GB instead of the 1.23, and rounding them as much again and 1.23.
#include <type_traits>
#include <utility>

#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/launch/search.cuh"
#include "cuda/kernels/rows/row_reduce.h"
#include "cuda/kernels/rows/row_sums.cuh"
#include "sparse/ops/all.h"
#include "sparse/slot_math.h"

namespace sparseagg::gpu {
namespace {

template <class V>
struct ToSlots {
  Int128* slots;   // [numbers, width]
  uint32_t width;  // slots of a row

  template <uint32_t kValues>
  SPARSEAGG_DEVICE void Write(uint64_t number, bool, uint32_t column,
                              const PieceSum<V> (&sums)[kValues], uint32_t positions) const {
    Int128* out = slots + number * width + column;
    for (uint32_t k = 0; k < kValues; ++k) out[k] = sums[k].Total(positions);
  }
  // side.cu finds it.
  SPARSEAGG_DEVICE void Aside(uint64_t, uint32_t, WideValue<V>) const {}
};

// The memory into which a kernel writes entries of the side table.
struct SideTaker {
  const uint64_t* rows;  // of the run
  SideEntry* entries;
  uint64_t capacity;
  uint64_t* count;

  SPARSEAGG_DEVICE void Take(uint64_t run, uint32_t column, double product) const {
    const uint64_t at = AtomicAdd(count, uint64_t{1});
    if (at >= capacity) return;
    const Scaled parts = Decompose(product);
    entries[at] = {rows[run], column, parts.exponent, parts.significand};
  }
};

template <class V>
struct ToSlotsAndSide : ToSlots<V> {
  SideTaker side;
  SPARSEAGG_DEVICE void Aside(uint64_t run, uint32_t column, double product) const {
    side.Take(run, column, product);
  }
};

template <class Op, class V>
struct ToResults {
  static constexpr bool kCan =
      Op::kValues == ValueSlots::kExactSum && Op::kRowSlot == RowSlot::kNone && kSplits<V>;

  RowPiecesView pieces;
  SlotRule rule;
  double total_weight;
  V* values;      // [runs, width]
  Int128* heads;  // [later, width]
  uint64_t* infinite;
  SideTaker side;

  template <uint32_t kValues>
  SPARSEAGG_DEVICE void Write(uint64_t run, bool whole, uint32_t column,
                              const PieceSum<V> (&sums)[kValues], uint32_t positions) const {
    if (!whole) {
      Int128* out = heads + pieces.FirstLater(run) * rule.width + column;
      for (uint32_t k = 0; k < kValues; ++k) out[k] = sums[k].Total(positions);
      return;
    }
    const double unit = PowerOfTwo(rule.lsb);
    Lane<V, kValues> results;
    for (uint32_t k = 0; k < kValues; ++k) {
      const SplitValue sum = sums[k].Value(positions, unit);
      const Finalized finalized =
          FinalizeValue<Op, V>(sum, sum, total_weight, rule.overflow, &results.value[k]);
      if (finalized == Finalized::kInfinite) AtomicAdd(infinite, uint64_t{1});
    }
    *reinterpret_cast<Lane<V, kValues>*>(values + run * rule.width + column) = results;
  }
  SPARSEAGG_DEVICE void Aside(uint64_t run, uint32_t column, double product) const {
    side.Take(run, column, product);
  }
};

// The results of runs of several pieces, when their partials are joined.
template <class Op, class V>
struct RoundLong {
  ToResults<Op, V> to;
  const Int128* partials;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const SlotRule& rule = to.rule;
    const uint64_t number = i / rule.width;
    const uint64_t run = to.pieces.run_of_later[number];
    if (run == RowPiecesView::kNoRun || number != to.pieces.FirstLater(run)) return;
    const SlotValue sum{to.heads[i] + partials[i], rule.lsb};
    const Finalized finalized = FinalizeValue<Op, V>(sum, sum, to.total_weight, rule.overflow,
                                                     &to.values[run * rule.width + i % rule.width]);
    if (finalized == Finalized::kInfinite) AtomicAdd(to.infinite, uint64_t{1});
  }
};

template <class V>
struct SumAgain {
  SortedBatch<V> batch;
  RowPiecesView pieces;
  const uint64_t* run_rows;
  const Int128* heads;
  const Int128* partials;
  const uint64_t* rows;
  Int128* slots;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint32_t width = batch.rule.width;
    const auto c = static_cast<uint32_t>(i % width);
    const uint64_t run = LowerBound(run_rows, pieces.runs.Get(), rows[i / width]);
    const RowPiece piece = pieces.First(run);
    if (!piece.whole) {
      const uint64_t at = pieces.FirstLater(run) * width + c;
      slots[i] = heads[at] + partials[at];
      return;
    }
    Int128 sum = 0;
    for (uint64_t p = piece.begin; p < piece.end; ++p) sum += batch.Slot(p, c);
    slots[i] = sum;
  }
};

// Values that a lane takes: 16 bytes, or 8; 0 where rows are no multiple of that.
template <class V>
uint32_t LaneValues(uint32_t width) {
  constexpr uint32_t kMost = sizeof(V) == 2 ? 4 : 16 / sizeof(V);
  if (width % kMost == 0) return kMost;
  return sizeof(V) > 2 && width % (kMost / 2) == 0 ? kMost / 2 : 0;
}

template <class V>
bool HasLanes(const SlotRule& rule) {
  const bool in_range = rule.lsb >= -kSplitLsbMax && rule.lsb <= kSplitLsbMax;
  return rule.values == ValueSlots::kExactSum && LaneValues<V>(rule.width) != 0 &&
         (!kSplits<V> || in_range);
}

// Sums up the first pieces of all runs, or all later ones.
template <class V, class Sink>
void Sum(Queue& queue, const SortedBatch<V>& batch, const RowPieces& pieces, bool later,
         const Sink& sink) {
  constexpr uint32_t kMost = sizeof(V) == 2 ? 4 : 16 / sizeof(V);
  const Count numbers = later ? Count{nullptr, pieces.later} : pieces.view.runs;
  const auto launch = [&](auto values) {
    ForEachWarp(
        queue, numbers, kWarpLanes,
        SumPieces<V, decltype(values)::value, Sink>{batch, pieces.view, numbers.most, later, sink});
  };
  if (LaneValues<V>(batch.rule.width) == kMost) {
    launch(std::integral_constant<uint32_t, kMost>());
  } else if constexpr (sizeof(V) > 2) {
    launch(std::integral_constant<uint32_t, kMost / 2>());
  }
}

template <class Op, class V>
void RoundInto(Queue& queue, const BatchView& batch, const Finalization& finalization,
               RoundedRows& rounded) {
  const SlotRule& rule = finalization.rule;
  const uint64_t* rows = rounded.sorted.run.rows.data();
  const SideTaker side{rows, rounded.side.entries.data(), rounded.side.entries.size(),
                       rounded.side.count.data()};
  const ToResults<Op, V> results{rounded.pieces.view,
                                 rule,
                                 finalization.total_weight,
                                 reinterpret_cast<V*>(rounded.values.data()),
                                 rounded.heads.data(),
                                 rounded.infinite.data(),
                                 side};
  const SortedBatch<V> entries{batch, rule, rounded.sorted.sorted.view};
  Sum(queue, entries, rounded.pieces, false, results);
  Sum(queue, entries, rounded.pieces, true,
      ToSlotsAndSide<V>{{rounded.pieces.partials.data(), rule.width}, side});
  JoinPartials(queue, rule, rounded.pieces);
  ForEach(queue, rounded.heads.size(), RoundLong<Op, V>{results, rounded.pieces.partials.data()});
}

}  // namespace

SlotRun ReduceRows(Queue& queue, const BatchView& batch, const SlotRule& rule) {
  SortedRuns all = SortIntoRuns(queue, batch, rule);
  const SortedEntries& sorted = all.sorted.view;
  SlotRun& run = all.run;
  const RowPieces pieces = CutRows(queue, rule, all.starts.data(), run.count(), batch.nnz);
  uint32_t summed = 0;  // columns
  WithValueType(rule.type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    if (!HasLanes<V>(rule)) return;
    summed = rule.width;
    const SortedBatch<V> entries{batch, rule, sorted};
    Sum(queue, entries, pieces, false, ToSlots<V>{run.slots.data(), rule.slots()});
    Sum(queue, entries, pieces, true, ToSlots<V>{pieces.partials.data(), rule.slots()});
  });
  // The row slot, and everything of rules and widths that have no lanes.
  if (summed < rule.slots()) {
    WalkPieces(queue, batch, rule, sorted, pieces, summed, run.slots.data());
  }
  JoinPieces(queue, rule, pieces, run.slots.data());
  return std::move(run);
}

bool CanRoundRows(const Finalization& finalization) {
  bool can = false;
  AllOps::With(finalization.op, [&](auto op) {
    WithValueType(finalization.rule.type, [&](auto tag) {
      using V = typename decltype(tag)::type;
      if constexpr (ToResults<decltype(op), V>::kCan) can = HasLanes<V>(finalization.rule);
    });
  });
  return can;
}

RoundedRows RoundRows(Queue& queue, const BatchView& batch, const Finalization& finalization) {
  const SlotRule& rule = finalization.rule;
  SlotRule no_slots = rule;
  no_slots.values = ValueSlots::kNone;
  RoundedRows rounded;
  rounded.sorted = SortIntoRuns(queue, batch, no_slots);
  const SlotRun& run = rounded.sorted.run;
  rounded.pieces = CutRows(queue, rule, rounded.sorted.starts.data(), run.count(), batch.nnz);
  rounded.heads = {queue, rounded.pieces.partials.size()};
  rounded.values = {queue, run.size * rule.width * SizeOf(rule.type)};
  rounded.infinite = {queue, 1};
  queue.Fill(rounded.infinite.data(), 0, 1);
  rounded.side = MakeSideList(queue, batch);
  AllOps::With(finalization.op, [&](auto op) {
    WithValueType(rule.type, [&](auto tag) {
      using Op = decltype(op);
      using V = typename decltype(tag)::type;
      if constexpr (ToResults<Op, V>::kCan) RoundInto<Op, V>(queue, batch, finalization, rounded);
    });
  });
  return rounded;
}

void SumRoundedRows(Queue& queue, const BatchView& batch, const SlotRule& rule,
                    const RoundedRows& rounded, const uint64_t* rows, uint64_t size,
                    Int128* slots) {
  WithValueType(rule.type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    if constexpr (kSplits<V>) {
      ForEach(queue, size * rule.width,
              SumAgain<V>{{batch, rule, rounded.sorted.sorted.view},
                          rounded.pieces.view,
                          rounded.sorted.run.rows.data(),
                          rounded.heads.data(),
                          rounded.pieces.partials.data(),
                          rows,
                          slots});
    }
  });
}

}  // namespace sparseagg::gpu
