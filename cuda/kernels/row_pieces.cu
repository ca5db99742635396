// In: starts [runs]. Out: first [runs + 1]; slots [runs, slots()] joined with partials.
//
// One thread a run to count, one a slot to join: a row of 10^8 entries has 200,000 partials, which
// one thread for each of its slots adds one after another, neighbouring threads side by side.
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/row_pieces.h"
#include "cuda/kernels/scan.h"

namespace sparseagg::gpu {
namespace {

struct CountPieces {
  const uint64_t* starts;
  uint64_t runs;
  uint64_t size;
  uint64_t* counts;  // [runs + 1]

  SPARSEAGG_DEVICE void operator()(uint64_t r) const {
    if (r == runs) {
      counts[r] = 0;
      return;
    }
    const uint64_t end = r + 1 < runs ? starts[r + 1] : size;
    counts[r] = (end - starts[r] + kPiecePositions - 1) / kPiecePositions;
  }
};

struct Join {
  SlotRule rule;
  const uint64_t* first;
  const Int128* partials;
  Int128* slots;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint32_t width = rule.slots();
    const uint64_t run = i / width;
    const auto c = static_cast<uint32_t>(i % width);
    const uint64_t more = first[run + 1] - first[run] - 1;
    if (more == 0) return;
    Int128 slot = slots[i];
    const Int128* partial = partials + (first[run] - run) * width + c;
    for (uint64_t k = 0; k < more; ++k) slot = rule.Join(c, slot, partial[k * width]);
    slots[i] = slot;
  }
};

}  // namespace

RowPieces CutRows(Queue& queue, const SlotRule& rule, const uint64_t* starts, uint64_t runs,
                  uint64_t size) {
  RowPieces cut;
  cut.first = {queue, runs + 1};
  ForEach(queue, runs + 1, CountPieces{starts, runs, size, cut.first.data()});
  ExclusiveSum(queue, cut.first.data(), runs + 1);
  cut.pieces = queue.Read(cut.first.data() + runs);
  cut.view = {cut.first.data(), starts, runs, size, cut.pieces == runs};
  cut.partials = {queue, (cut.pieces - runs) * rule.slots()};
  return cut;
}

void JoinPieces(Queue& queue, const SlotRule& rule, const RowPieces& pieces, Int128* slots) {
  if (pieces.view.one_each) return;
  ForEach(queue, pieces.view.runs * rule.slots(),
          Join{rule, pieces.first.data(), pieces.partials.data(), slots});
}

}  // namespace sparseagg::gpu
