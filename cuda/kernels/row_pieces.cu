// In: starts [runs]. Out: first [runs + 1]; slots [runs, slots()] joined with partials.
//
// One thread a run to count. To join, partials of a run are added to every 64th of them, then those
// to every 64th of them: a row of 10^8 entries has 200,000 partials, which is three times 64 steps,
// neighbouring threads side by side.
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

constexpr uint64_t kGroup = 64;

// Partials of a run that are a multiple of kGroup * stride take the kGroup - 1 behind them at that
// stride.
struct JoinGroups {
  SlotRule rule;
  const uint64_t* first;
  uint64_t runs;
  uint64_t stride;
  Int128* partials;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint32_t width = rule.slots();
    const uint64_t partial = i / width;
    uint64_t run = 0;
    for (uint64_t high = runs; high - run > 1;) {
      const uint64_t middle = run + (high - run) / 2;
      (first[middle] - middle <= partial ? run : high) = middle;
    }
    const uint64_t begin = first[run] - run;
    const uint64_t end = first[run + 1] - run - 1;
    if ((partial - begin) % (kGroup * stride) != 0) return;
    Int128 slot = partials[i];
    for (uint64_t k = 1; k < kGroup && partial + k * stride < end; ++k) {
      slot = rule.Join(static_cast<uint32_t>(i % width), slot, partials[i + k * stride * width]);
    }
    partials[i] = slot;
  }
};

// What is left: a partial at every stride.
struct Join {
  SlotRule rule;
  const uint64_t* first;
  uint64_t stride;
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
    for (uint64_t k = 0; k < more; k += stride) slot = rule.Join(c, slot, partial[k * width]);
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
  const uint64_t partials = pieces.pieces - pieces.view.runs;
  uint64_t stride = 1;
  for (; stride * kGroup < partials; stride *= kGroup) {
    ForEach(
        queue, partials * rule.slots(),
        JoinGroups{rule, pieces.first.data(), pieces.view.runs, stride, pieces.partials.data()});
  }
  ForEach(queue, pieces.view.runs * rule.slots(),
          Join{rule, pieces.first.data(), stride, pieces.partials.data(), slots});
}

}  // namespace sparseagg::gpu
