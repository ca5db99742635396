// In: starts [runs]. Out: first [runs + 1]; slots [runs, slots()] joined with partials.
//
// One thread a run to count. To join, partials of a run are added to every 64th of them, then those
// to every 64th of them: a row of 10^8 entries has 200,000 partials, which is three times 64 steps,
// neighbouring threads side by side. A run of one piece has none and costs nothing: threads are for
// partials, of which there is at most one for every 512 positions.
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/row_pieces.h"
#include "cuda/kernels/scan.h"

namespace sparseagg::gpu {
namespace {

struct CountPieces {
  const uint64_t* starts;
  Count runs;
  uint64_t size;
  uint64_t* counts;  // [runs.most + 1]: 0 behind the last run

  SPARSEAGG_DEVICE void operator()(uint64_t r) const {
    if (r >= runs.Get()) {
      counts[r] = 0;
      return;
    }
    const uint64_t end = r + 1 < runs.Get() ? starts[r + 1] : size;
    counts[r] = (end - starts[r] + kPiecePositions - 1) / kPiecePositions;
  }
};

constexpr uint64_t kGroup = 64;

// Where the partials of the run are that partial number `partial` is of.
struct PartialsOfRun {
  uint64_t run;
  uint64_t begin;
  uint64_t end;
};
SPARSEAGG_HOST_DEVICE inline PartialsOfRun PartialsAround(const RowPiecesView& pieces,
                                                          uint64_t partial) {
  uint64_t run = 0;
  for (uint64_t high = pieces.runs.Get(); high - run > 1;) {
    const uint64_t middle = run + (high - run) / 2;
    (pieces.first[middle] - middle <= partial ? run : high) = middle;
  }
  return {run, pieces.first[run] - run, pieces.first[run + 1] - run - 1};
}

// Partials of a run that are a multiple of kGroup * stride take the kGroup - 1 behind them at that
// stride.
struct JoinGroups {
  SlotRule rule;
  RowPiecesView pieces;
  uint64_t stride;
  Int128* partials;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint32_t width = rule.slots();
    const uint64_t partial = i / width;
    if (partial >= pieces.Partials()) return;
    const PartialsOfRun own = PartialsAround(pieces, partial);
    if ((partial - own.begin) % (kGroup * stride) != 0) return;
    Int128 slot = partials[i];
    for (uint64_t k = 1; k < kGroup && partial + k * stride < own.end; ++k) {
      slot = rule.Join(static_cast<uint32_t>(i % width), slot, partials[i + k * stride * width]);
    }
    partials[i] = slot;
  }
};

// What is left, a partial at every stride, goes to the run's slots by the thread of the first one.
struct Join {
  SlotRule rule;
  RowPiecesView pieces;
  uint64_t stride;
  const Int128* partials;
  Int128* slots;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint32_t width = rule.slots();
    const uint64_t partial = i / width;
    const auto c = static_cast<uint32_t>(i % width);
    if (partial >= pieces.Partials()) return;
    const PartialsOfRun own = PartialsAround(pieces, partial);
    if (partial != own.begin) return;
    Int128 slot = slots[own.run * width + c];
    for (uint64_t p = own.begin; p < own.end; p += stride) {
      slot = rule.Join(c, slot, partials[p * width + c]);
    }
    slots[own.run * width + c] = slot;
  }
};

}  // namespace

RowPieces CutRows(Queue& queue, const SlotRule& rule, const uint64_t* starts, const Count& runs,
                  uint64_t size) {
  const uint64_t partials = size / kPiecePositions;
  RowPieces cut;
  cut.first = {queue, runs.most + 1};
  ForEach(queue, runs.most + 1, CountPieces{starts, runs, size, cut.first.data()});
  ExclusiveSum(queue, cut.first.data(), runs.most + 1);
  cut.pieces = {cut.first.data() + runs.most, runs.most + partials};
  cut.view = {cut.first.data(), starts, runs, size};
  cut.partials = {queue, partials * rule.slots()};
  return cut;
}

void JoinPieces(Queue& queue, const SlotRule& rule, const RowPieces& pieces, Int128* slots) {
  const uint64_t partials = pieces.view.size / kPiecePositions;
  uint64_t stride = 1;
  for (; stride * kGroup < partials; stride *= kGroup) {
    ForEach(queue, partials * rule.slots(),
            JoinGroups{rule, pieces.view, stride, pieces.partials.data()});
  }
  ForEach(queue, partials * rule.slots(),
          Join{rule, pieces.view, stride, pieces.partials.data(), slots});
}

}  // namespace sparseagg::gpu
