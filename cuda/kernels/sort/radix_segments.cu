// In: a batch. Out: a run, rows [size] and slots [size, slots()].
//
// Sums of scalars: bucket_sums.cu, where the batch allows. Otherwise sort_entries.cu, then
// sorted_tiles.cu: 16 bytes an entry to pack, 16 for each 8 bits of the row, 48 to reduce. Rows of
// several values have enough slots to keep every thread busy with one of them: sorted_slots.cu.
#include <utility>

#include "cuda/kernels/sort/bucket_sums.h"
#include "cuda/kernels/sort/radix_segments.h"
#include "cuda/kernels/sort/sorted_tiles.h"

namespace sparseagg::gpu {

SlotRun ReduceByRadix(Queue& queue, const BatchView& batch, const SlotRule& rule) {
  if (CanSumBuckets(batch, rule)) return SumBuckets(queue, batch, rule);
  const bool by_tiles = rule.slots() <= 2;
  SortedRuns all = SortIntoRuns(queue, batch, rule, !by_tiles);
  const SortedEntries& sorted = all.sorted.view;
  SlotRun& run = all.run;
  if (by_tiles) {
    ReduceTiles(queue, batch, rule, sorted, all.runs, run.slots.data());
  } else {
    WalkRows(queue, batch, rule, sorted, all.starts.data(), run.count(), run.slots.data());
  }
  return std::move(run);
}

}  // namespace sparseagg::gpu
