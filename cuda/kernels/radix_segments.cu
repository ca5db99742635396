// In: a batch. Out: a run, rows [size] and slots [size, slots()].
//
// sort_entries.cu, then sorted_tiles.cu. Bytes an entry: 16 to pack, 16 for each 8 bits of the row,
// 48 to reduce. At 10^8 entries and 10^9 rows the model says 4 to 5 ms on an H200
// (docs/decisions/0009-gpu-plans.md). Rows of several values have enough slots to keep every thread
// busy with one of them: sorted_slots.cu.
#include <utility>

#include "cuda/kernels/radix_segments.h"
#include "cuda/kernels/sorted_tiles.h"

namespace sparseagg::gpu {

Run ReduceByRadix(Queue& queue, const BatchView& batch, const SlotRule& rule) {
  SortedRuns all = SortIntoRuns(queue, batch, rule);
  const SortedEntries& sorted = all.sorted.view;
  Run& run = all.run;
  if (rule.slots() <= 2) {
    ReduceTiles(queue, batch, rule, sorted, all.runs, run.slots.data());
  } else {
    WalkRows(queue, batch, rule, sorted, all.starts.data(), run.count(), run.slots.data());
  }
  return std::move(run);
}

}  // namespace sparseagg::gpu
