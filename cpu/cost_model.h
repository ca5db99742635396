// Predicts how long a plan takes on a CPU. The constants are a table, measured on one machine
// (docs/decisions/0004-cpu-plans.md); what decides between plans is their ratios, which move little
// from machine to machine, and the round's status shows prediction and measurement side by side.
#ifndef SPARSEAGG_CPU_COST_MODEL_H_
#define SPARSEAGG_CPU_COST_MODEL_H_

#include <cstdint>
#include <string_view>

#include "cpu/sparse_reduction.h"
#include "sparse/planner.h"

namespace sparseagg {

// Nanoseconds of one thread.
struct CpuCosts {
  double start = 20'000;      // a reduction in several windows: sample, tasks, memory
  double scatter = 1.6;       // an entry into a dense window
  double visit = 14;          // a cursor's turn in a window
  double scan = 0.3;          // a cell of a dense window, when it is emptied
  double emit = 1.0;          // a row of the result
  double sort = 6.5;          // an entry of a sparse window
  double partition = 3.2;     // an entry distributed over windows
  double order = 7.0;         // an entry of an update that is sorted first
  double ref = 9.0;           // an entry of a wide row, whatever its width
  double value = 0.35;        // a value of a wide row
  double clear = 0.6;         // a cell of a dense accumulator: made, and looked at for the result
  double merge = 2.5;         // a row of the state, swept along by a fold
  double thread_share = 0.9;  // of a further thread that is useful
};

inline constexpr CpuCosts kCpuCosts;

// Raw entries of a batch that is folded while others arrive.
inline constexpr uint64_t kBatchBytesMin = uint64_t{64} << 20;

// The cheaper way to bring the entries of such a batch together.
Feed FeedFor(const ReduceSpec& spec, const Workload& workload);

// The CostModel of the CPU back end.
PlanCost CpuCost(const BackendInfo& backend, std::string_view plan, const ReduceSpec& spec,
                 const Workload& workload);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_COST_MODEL_H_
