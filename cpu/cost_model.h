// Predicts how long a plan takes on a CPU. The constants are a table, measured on one machine
// (docs/decisions/0004-cpu-plans.md). Their ratios decide between plans. The cost of sorting varies
// most between machines; the length of a machine's vectors selects one of two constants. The
// round's status shows prediction and measurement side by side.
#ifndef SPARSEAGG_CPU_COST_MODEL_H_
#define SPARSEAGG_CPU_COST_MODEL_H_

#include <cstdint>

#include "cpu/windowed/sparse_reduction.h"
#include "sparse/planner.h"

namespace sparseagg {

// Costs in nanoseconds of one thread, unless noted otherwise.
struct CpuCosts {
  double start = 20'000;       // a reduction in several windows: sample, tasks, memory
  double update = 60;          // an update, whatever its size
  double scatter = 1.05;       // an entry into a dense window
  double full_scatter = 0.38;  // the same for an update that has nearly every row
  double dense_scatter = 2.5;  // an entry into a dense accumulator
  double full_dense = 0.38;    // the same for an update that has nearly every row
  double visit = 11;           // one cursor in one dense window
  double wide_visit = 6.5;     // the same for wide rows
  double sparse_visit = 22;    // one cursor in one sparse window
  double far_visit = 4;  // factor on a visit from `far_entries` entries on: beyond the last cache
  double far_entries = 3e6;
  double scan = 0.3;        // clearing a cell of a dense window
  double emit = 0.7;        // a row of the result
  double sort = 6.4;        // an entry of a sparse window
  double short_sort = 8.5;  // the same without AVX-512
  double partition = 3.2;   // an entry distributed over windows, of a sorted update
  double wide_partition =
      14;  // the same for a wide row that is scattered, read where it was staged
  double partition_far = 2.5;  // the same for an unsorted update
  double short_partition = 9;  // in addition without AVX-512, for a wide row that is then scattered
  double partition_update = 60;  // an update whose entries are distributed, in addition to `update`
  double order = 10;             // an entry of an update that is sorted first
  double wide_entry = 4.5;       // an entry of a wide row, whatever its width, into a dense window
  double wide_ref = 20;          // the same, sorted by reference
  double wide_far = 45;          // the same, anywhere in a dense accumulator
  double wide_value = 0.145;     // a value of such an entry
  double far_value = 0.25;  // the same for rows wider than `far_width`, whose cells fit no cache
  double far_width = 4096;
  double wide_emit = 0.35;  // a value of a wide row of the result
  double clear = 0.9;  // a cell of a dense accumulator: clearing it, and scanning it for the result
  double far_clear =
      3.0;  // the same from `far_cells` rows on: beyond the last cache, in new memory
  double far_cells = 4e6;
  double wide_clear = 2.15;    // a cell of a dense accumulator of wide rows, beside `wide_emit`
  double merge = 2.5;          // a row of the state that a fold merges through dense windows
  double wide_merge = 0.8;     // a value of a wide row of the state that a fold merges
  double wide_join = 1.4;      // in addition when the batch has the row, too
  double thread_share = 0.65;  // useful fraction of each further thread
};

inline constexpr CpuCosts kCpuCosts;

// Least bytes of raw entries in a batch that is folded while others arrive.
inline constexpr uint64_t kBatchBytesMin = uint64_t{64} << 20;
// Up to this size, a batch has kStatesInBatch times the bytes of the state.
inline constexpr uint64_t kBatchBytesMax = uint64_t{256} << 20;
inline constexpr uint64_t kStatesInBatch = 6;

// Returns the bytes of a batch for a state of `state_bytes` bytes. Folding a batch rewrites the
// whole state. A batch therefore has at least as many bytes as the state, so that the number of
// times that an entry is merged does not grow with the number of entries; while the state is small,
// it has several times as many.
uint64_t BatchBytes(uint64_t state_bytes);

// Returns the cheaper way to bring the entries of a batch together.
Feed FeedFor(const ReduceSpec& spec, const Workload& workload);

// Predicts the cost of the plans of plan_table.h. An unknown workload has a typical size.
PlanCost DenseCost(const BackendInfo& backend, const ReduceSpec& spec, const Workload& workload);
PlanCost SweepCost(const BackendInfo& backend, const ReduceSpec& spec, const Workload& workload);
PlanCost PartitionCost(const BackendInfo& backend, const ReduceSpec& spec,
                       const Workload& workload);
PlanCost RowsCost(const BackendInfo& backend, const ReduceSpec& spec, const Workload& workload);

// The steps of a dense reduction. The first fold that has rows in a slice clears the slice's cells;
// the report scans the cells of all slices that have rows. The steps of a round add up to
// DenseCost().
enum class DenseStep : uint8_t { kFold, kReport };
// Returns the predicted time of a step. `workload` describes the pending updates that the step
// adds; with 0 contributors it adds none. The state already has `entries_before` entries.
double DenseStepSeconds(const BackendInfo& backend, const ReduceSpec& spec,
                        const Workload& workload, uint64_t entries_before, DenseStep step);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_COST_MODEL_H_
