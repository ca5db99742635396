#include "cpu/windowed/sparse_plan.h"

#include <utility>

#include "cpu/windowed/cell_run.h"

namespace sparseagg {

SparsePlan::SparsePlan(const ReduceSpec& spec, const CpuKernels& kernels, Parallel& parallel)
    : spec_(spec), kernels_(kernels), parallel_(parallel) {}

void SparsePlan::Fold(std::vector<PendingUpdate> batch, Feed feed) {
  // This cannot fail: it writes cells, not results.
  SparseSums sums = *ReduceSparse(spec_, kernels_, parallel_, feed, batch, state_, {});
  state_ = {std::move(sums.rows.kept()), std::move(sums.values), std::move(sums.row_cells),
            std::move(sums.side)};
}

void SparsePlan::Merge(CellRun run) {
  state_ = state_.rows.empty() && state_.side.empty() ? std::move(run)
                                                      : JoinRuns(spec_, kernels_, state_, run);
}

absl::StatusOr<SparseSums> SparsePlan::Finish(std::vector<PendingUpdate> batch, Feed feed,
                                              double total_weight) {
  return ReduceSparse(spec_, kernels_, parallel_, feed, batch, state_,
                      {.results = true, .total_weight = total_weight});
}

uint64_t SparsePlan::MemoryBytes() const { return sparseagg::MemoryBytes(state_); }

}  // namespace sparseagg
