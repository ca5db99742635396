// Predicts how long a plan takes on a CPU. The constants are a table, measured on one machine
// (docs/decisions/0004-cpu-plans.md); what decides between plans is their ratios, of which that of
// sorting moves most from machine to machine and is known by its vectors. The round's status shows
// prediction and measurement side by side.
#ifndef SPARSEAGG_CPU_COST_MODEL_H_
#define SPARSEAGG_CPU_COST_MODEL_H_

#include <cstdint>
#include <string_view>

#include "cpu/windowed/sparse_reduction.h"
#include "sparse/planner.h"

namespace sparseagg {

// Nanoseconds of one thread.
struct CpuCosts {
  double start = 20'000;       // a reduction in several windows: sample, tasks, memory
  double update = 60;          // an update, whatever its size
  double scatter = 1.05;       // an entry into a dense window
  double full_scatter = 0.38;  // the same, of an update that has nearly every row
  double dense_scatter = 2.5;  // an entry into a dense accumulator
  double full_dense = 0.38;    // the same, of an update that has nearly every row
  double visit = 11;           // a cursor's turn in a dense window
  double wide_visit = 6.5;     // the same of wide rows, in a dense window
  double sparse_visit = 22;    // the same in a sparse one
  double far_visit = 4;        // as often as much where the entries come from beyond the last cache
  double far_entries = 3e6;
  double scan = 0.3;             // a cell of a dense window, when it is emptied
  double emit = 0.7;             // a row of the result
  double sort = 6.4;             // an entry of a sparse window
  double short_sort = 8.5;       // the same without AVX-512
  double partition = 3.2;        // an entry distributed over windows, of a sorted update
  double wide_partition = 14;    // the same of a wide row that is scattered: read where it came
  double partition_far = 2.5;    // of an unsorted update
  double short_partition = 9;    // more without AVX-512, of a wide row that is then scattered
  double partition_update = 60;  // an update whose entries are distributed, beyond `update`
  double order = 10;             // an entry of an update that is sorted first
  double wide_entry = 4.5;       // an entry of a wide row, whatever its width, into a dense window
  double wide_ref = 20;          // the same, sorted by reference
  double wide_far = 45;          // the same, anywhere in a dense accumulator
  double wide_value = 0.145;     // a value of such an entry
  double far_value = 0.25;       // the same of rows whose cells do not fit a cache
  double far_width = 4096;
  double wide_emit = 0.35;  // a value of a wide row of the result
  double clear = 0.9;       // a cell of a dense accumulator: made, and looked at for the result
  double far_clear = 3.0;   // the same of one beyond the last cache, in memory that is new
  double far_cells = 4e6;
  double wide_clear = 2.15;    // a cell of a dense accumulator of wide rows, beside `wide_emit`
  double merge = 2.5;          // a row of the state, swept along by a fold through dense windows
  double wide_merge = 0.8;     // a value of a wide row of the state, swept along by a fold
  double wide_join = 1.4;      // what it costs more when the row is in the batch, too
  double thread_share = 0.65;  // of a further thread that is useful
};

inline constexpr CpuCosts kCpuCosts;

// Raw entries of a batch that is folded while others arrive.
inline constexpr uint64_t kBatchBytesMin = uint64_t{64} << 20;
// Up to here it has several times the bytes of the state.
inline constexpr uint64_t kBatchBytesMax = uint64_t{256} << 20;
inline constexpr uint64_t kStatesInBatch = 6;

// Of a batch, for a state of so many bytes. A batch passes by the whole state: as many bytes as
// that has, so that the number of times that an entry is merged does not grow with their number;
// and a few times as many while that is little.
uint64_t BatchBytes(uint64_t state_bytes);

// The cheaper way to bring the entries of such a batch together.
Feed FeedFor(const ReduceSpec& spec, const Workload& workload);

// The CostModel of the CPU back end.
PlanCost CpuCost(const BackendInfo& backend, std::string_view plan, const ReduceSpec& spec,
                 const Workload& workload);

// What a step of a dense reduction takes. Emptying a slice's cells is a part of the fold that first
// has rows there; the report looks through the cells of all slices that have some. The steps of a
// round add up to CpuCost() of "dense".
enum class DenseStep : uint8_t { kFold, kReport };
// `workload`: what waits and is added in this step; 0 contributors: nothing is. The state has
// `entries_before` already.
double DenseStepSeconds(const BackendInfo& backend, const ReduceSpec& spec,
                        const Workload& workload, uint64_t entries_before, DenseStep step);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_COST_MODEL_H_
