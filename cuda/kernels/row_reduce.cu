// In: a batch with rows of `width` values. Out: a run, rows [size] and slots [size, slots()].
//
// The rows' ids are sorted (sort_entries.cu), at 12 to 20 bytes a row against some hundred for its
// values. Then a thread takes 8 bytes of columns of a piece of a row's entries: neighbouring
// threads read neighbouring columns, so a row of 64 f32 values is one line of a warp. It keeps the
// sums of its 1, 2 or 4 columns in registers, 128 bits each. Entries are found by a binary search
// in the table of updates, the same for all threads of a row. Bytes an entry: its values once, 8
// for the sorted word; 16 a slot written. Source: the backward kernel of FBGEMM's table batched
// embeddings (sort, runs, long runs split); the sums are exact here, and long runs are split at
// fixed places.
#include <utility>

#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/row_reduce.h"
#include "cuda/kernels/slots.cuh"
#include "cuda/kernels/sorted_tiles.h"

namespace sparseagg::gpu {
namespace {

// Values that are read at once. Rows begin at multiples of 8 bytes.
template <class V>
struct alignas(8) Lane {
  static constexpr uint32_t kValues = 8 / sizeof(V);
  V value[kValues];
};

template <class V>
struct SumLanes {
  SortedBatch<V> batch;
  RowPiecesView pieces;
  Int128* slots;
  Int128* partials;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    constexpr uint32_t kValues = Lane<V>::kValues;
    const SlotRule& rule = batch.rule;
    const uint32_t lanes = rule.width / kValues;
    const RowPiece piece = pieces.At(i / lanes);
    const uint64_t lane = i % lanes;
    Int128 sums[kValues] = {};
    for (uint64_t p = piece.begin; p < piece.end; ++p) {
      const uint64_t e = batch.sorted.Entry(p);
      const UpdateRef& update = batch.batch.updates[SourceOf(batch.batch, e)];
      const auto* row = static_cast<const Lane<V>*>(update.values) + (e - update.first) * lanes;
      const Lane<V> values = row[lane];
      for (uint32_t k = 0; k < kValues; ++k) {
        sums[k] += FixedProduct(values.value[k], update.weight, rule.lsb);
      }
    }
    Int128* out =
        piece.is_first ? slots + piece.run * rule.slots() : partials + piece.partial * rule.slots();
    for (uint32_t k = 0; k < kValues; ++k) out[lane * kValues + k] = sums[k];
  }
};

}  // namespace

Run ReduceRows(Queue& queue, const BatchView& batch, const SlotRule& rule) {
  SortedRuns all = SortIntoRuns(queue, batch, rule);
  const SortedEntries& sorted = all.sorted.view;
  Run& run = all.run;
  const RowPieces pieces = CutRows(queue, rule, all.starts.data(), run.count(), batch.nnz);
  uint32_t summed = 0;  // columns
  WithValueType(rule.type, [&](auto tag) {
    using V = typename decltype(tag)::type;
    if (rule.values != ValueSlots::kExactSum || rule.width % Lane<V>::kValues != 0) return;
    summed = rule.width;
    ForEach(
        queue, pieces.pieces, rule.width / Lane<V>::kValues,
        SumLanes<V>{{batch, rule, sorted}, pieces.view, run.slots.data(), pieces.partials.data()});
  });
  // The row slot, and everything of rules and widths that have no lanes.
  if (summed < rule.slots()) {
    WalkPieces(queue, batch, rule, sorted, pieces, summed, run.slots.data());
  }
  JoinPieces(queue, rule, pieces, run.slots.data());
  return std::move(run);
}

}  // namespace sparseagg::gpu
