// In: a batch. Out: a run, rows [size] and slots [size, slots()].
//
// sort_entries.cu, then sorted_tiles.cu. Bytes an entry: 16 to pack, 16 for each 8 bits of the row,
// 48 to reduce. At 10^8 entries and 10^9 rows the model says 4 to 5 ms on an H200
// (docs/decisions/0009-gpu-plans.md). Rows of several values have enough slots to keep every thread
// busy with one of them: sorted_slots.cu.
#include "cuda/kernels/radix_segments.h"
#include "cuda/kernels/sort_entries.h"
#include "cuda/kernels/sorted_tiles.h"

namespace sparseagg::gpu {

Run ReduceByRadix(Queue& queue, const BatchView& batch, const SlotRule& rule) {
  const SortedArrays sorted = SortEntries(queue, batch);
  const TiledRuns runs = FindRuns(queue, sorted.view);
  Run run{{queue, runs.size}, {queue, runs.size * rule.slots()}, runs.size};
  DeviceArray<uint64_t> starts(queue, runs.size);
  ListRuns(queue, sorted.view, runs, run.rows.data(), starts.data());
  if (rule.slots() <= 2) {
    ReduceTiles(queue, batch, rule, sorted.view, runs, run.slots.data());
  } else {
    WalkRows(queue, batch, rule, sorted.view, starts.data(), runs.size, run.slots.data());
  }
  return run;
}

}  // namespace sparseagg::gpu
