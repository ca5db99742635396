// In: sorted rows [size] and entry numbers [size] of a batch. Out: slots [size, slots()] or
// [runs, slots()].
//
// One thread a slot. FillSlots reads 12 bytes of the sorted arrays and gathers one value, a sector
// of 32 bytes, and writes 16. WalkPieces reads the same and writes only at the end of a piece.
#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/slots.cuh"
#include "cuda/kernels/sort/sorted_slots.h"

namespace sparseagg::gpu {
namespace {

struct Flatten {
  BatchView batch;
  uint64_t* rows;
  uint32_t* entries;

  SPARSEAGG_DEVICE void operator()(uint64_t e) const {
    const UpdateRef& update = batch.updates[SourceOf(batch, e)];
    rows[e] = update.rows[e - update.first];
    entries[e] = static_cast<uint32_t>(e);
  }
};

template <class V>
struct Fill {
  SortedBatch<V> batch;
  Int128* slots;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint32_t width = batch.rule.slots();
    slots[i] = batch.Slot(i / width, static_cast<uint32_t>(i % width));
  }
};

template <class V>
struct Walk {
  SortedBatch<V> batch;
  RowPiecesView pieces;
  uint32_t first_column;
  bool later;
  Int128* slots;  // [runs, slots()], or of later pieces

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const SlotRule& rule = batch.rule;
    const uint32_t columns = rule.slots() - first_column;
    const uint64_t number = i / columns;
    const RowPiece piece = later ? pieces.Later(number) : pieces.First(number);
    const auto c = static_cast<uint32_t>(first_column + i % columns);
    Int128 slot = rule.Empty(c);
    for (uint64_t p = piece.begin; p < piece.end; ++p) slot = rule.Join(c, slot, batch.Slot(p, c));
    slots[number * rule.slots() + c] = slot;
  }
};

}  // namespace

void FlattenRows(Queue& queue, const BatchView& batch, uint64_t* rows, uint32_t* entries) {
  ForEach(queue, batch.nnz, Flatten{batch, rows, entries});
}

void FillSlots(Queue& queue, const BatchView& batch, const SlotRule& rule,
               const SortedEntries& sorted, Int128* slots) {
  const LongSums long_sums = SumLongRuns(queue, batch, rule, sorted);
  WithValueType(rule.type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    ForEach(queue, sorted.size * rule.slots(),
            Fill<V>{{batch, rule, sorted, long_sums.keys.data()}, slots});
  });
}

void WalkPieces(Queue& queue, const BatchView& batch, const SlotRule& rule,
                const SortedEntries& sorted, const RowPieces& pieces, uint32_t first_column,
                Int128* slots) {
  const LongSums long_sums = SumLongRuns(queue, batch, rule, sorted);
  const uint32_t columns = rule.slots() - first_column;
  WithValueType(rule.type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    const SortedBatch<V> entries{batch, rule, sorted, long_sums.keys.data()};
    ForEach(queue, pieces.view.runs, columns,
            Walk<V>{entries, pieces.view, first_column, false, slots});
    ForEach(queue, pieces.later * columns,
            Walk<V>{entries, pieces.view, first_column, true, pieces.partials.data()});
  });
}

void WalkRows(Queue& queue, const BatchView& batch, const SlotRule& rule,
              const SortedEntries& sorted, const uint64_t* starts, const Count& runs,
              Int128* slots) {
  const RowPieces pieces = CutRows(queue, rule, starts, runs, sorted.size);
  WalkPieces(queue, batch, rule, sorted, pieces, 0, slots);
  JoinPieces(queue, rule, pieces, slots);
}

}  // namespace sparseagg::gpu
