// In: starts [runs]. Out: run_of_later [later]; slots [runs, slots()] joined with partials.
//
// One thread for each number of a later piece, of which there is one for 512 positions, finds the
// piece's run by one binary search. To join, partials of a run are added to every 64th of them,
// then those to every 64th of them: a row of 10^8 entries has 200,000 partials, which is three
// times 64 steps, neighbouring threads side by side. A run of one piece costs nothing. Bytes: 8 and
// 16 * slots() for 512 positions.
#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/rows/row_pieces.h"

namespace sparseagg::gpu {
namespace {

struct FindLater {
  const uint64_t* starts;
  Count runs;
  uint64_t size;
  uint64_t* run_of_later;

  SPARSEAGG_DEVICE void operator()(uint64_t number) const {
    const uint64_t inside = (number + 1) * kPiecePositions;
    uint64_t run = 0;
    for (uint64_t high = runs.Get(); high - run > 1;) {
      const uint64_t middle = run + (high - run) / 2;
      (starts[middle] <= inside ? run : high) = middle;
    }
    const uint64_t begin = starts[run];
    const uint64_t end = run + 1 < runs.Get() ? starts[run + 1] : size;
    // A run that begins there has its first piece there.
    const uint64_t steps = (inside - begin + kPiecePositions - 1) / kPiecePositions;
    const bool is_piece = steps > 0 && begin + steps * kPiecePositions < end;
    run_of_later[number] = is_piece ? run : RowPiecesView::kNoRun;
  }
};

constexpr uint64_t kGroup = 64;

// Partials of a run that are a multiple of kGroup * stride take the kGroup - 1 behind them at that
// stride.
struct JoinGroups {
  SlotRule rule;
  RowPiecesView pieces;
  uint32_t first_column;
  uint64_t stride;
  Int128* partials;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint32_t width = rule.slots();
    const uint32_t columns = width - first_column;
    const uint64_t number = i / columns;
    const auto c = static_cast<uint32_t>(first_column + i % columns);
    const uint64_t run = pieces.run_of_later[number];
    if (run == RowPiecesView::kNoRun) return;
    const uint64_t begin = pieces.FirstLater(run);
    const uint64_t end = begin + pieces.LaterOf(run);
    if ((number - begin) % (kGroup * stride) != 0) return;
    Int128 slot = partials[number * width + c];
    for (uint64_t k = 1; k < kGroup && number + k * stride < end; ++k) {
      slot = rule.Join(c, slot, partials[(number + k * stride) * width + c]);
    }
    partials[number * width + c] = slot;
  }
};

// What is left, one sum for each run, goes to the run's slots by the thread of that number.
struct Join {
  SlotRule rule;
  RowPiecesView pieces;
  uint32_t first_column;
  const Int128* partials;
  Int128* slots;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint32_t width = rule.slots();
    const uint32_t columns = width - first_column;
    const uint64_t number = i / columns;
    const auto c = static_cast<uint32_t>(first_column + i % columns);
    const uint64_t run = pieces.run_of_later[number];
    if (run == RowPiecesView::kNoRun || number != pieces.FirstLater(run)) return;
    Int128& slot = slots[run * width + c];
    slot = rule.Join(c, slot, partials[number * width + c]);
  }
};

}  // namespace

RowPieces CutRows(Queue& queue, const SlotRule& rule, const uint64_t* starts, const Count& runs,
                  uint64_t size) {
  RowPieces cut;
  cut.later = size == 0 ? 0 : (size - 1) / kPiecePositions;
  cut.run_of_later = {queue, cut.later};
  cut.partials = {queue, cut.later * rule.slots()};
  cut.view = {starts, runs, size, cut.run_of_later.data()};
  ForEach(queue, cut.later, FindLater{starts, runs, size, cut.run_of_later.data()});
  return cut;
}

void JoinPartials(Queue& queue, const SlotRule& rule, const RowPieces& pieces,
                  uint32_t first_column) {
  const uint64_t threads = pieces.later * (rule.slots() - first_column);
  for (uint64_t stride = 1; stride < pieces.later; stride *= kGroup) {
    ForEach(queue, threads,
            JoinGroups{rule, pieces.view, first_column, stride, pieces.partials.data()});
  }
}

void JoinPieces(Queue& queue, const SlotRule& rule, const RowPieces& pieces, Int128* slots,
                uint32_t first_column) {
  JoinPartials(queue, rule, pieces, first_column);
  ForEach(queue, pieces.later * (rule.slots() - first_column),
          Join{rule, pieces.view, first_column, pieces.partials.data(), slots});
}

}  // namespace sparseagg::gpu
