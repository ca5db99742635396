#include "cpu/sparse_plan.h"

#include <algorithm>
#include <utility>

#include "cpu/cell_run.h"

namespace sparseagg {

SparsePlan::SparsePlan(const ReduceSpec& spec, const CpuKernels& kernels, Parallel& parallel,
                       std::optional<Feed> feed)
    : spec_(spec), kernels_(kernels), parallel_(parallel), feed_(feed) {}

void SparsePlan::Fold(std::vector<PendingUpdate> batch) {
  // Cells are written, so there is no result that could fail.
  SparseSums sums = *ReduceSparse(spec_, kernels_, parallel_, FeedOf(batch), batch, state_, {});
  state_ = {std::move(sums.rows), std::move(sums.values), std::move(sums.row_cells),
            std::move(sums.side)};
}

void SparsePlan::Merge(CellRun run) {
  state_ = state_.rows.empty() && state_.side.empty()
               ? std::move(run)
               : JoinRuns(spec_, kernels_, state_, run);
}

absl::StatusOr<SparseSums> SparsePlan::Finish(std::vector<PendingUpdate> batch,
                                              double total_weight) {
  return ReduceSparse(spec_, kernels_, parallel_, FeedOf(batch), batch, state_,
                      {.results = true, .total_weight = total_weight});
}

uint64_t SparsePlan::MemoryBytes() const { return sparseagg::MemoryBytes(state_); }

Feed SparsePlan::FeedOf(std::vector<PendingUpdate>& batch) const {
  if (feed_.has_value()) return *feed_;
  const bool sorted = std::all_of(batch.begin(), batch.end(), [](const PendingUpdate& update) {
    return IsReady(update, Need::kSorted);
  });
  return sorted ? Feed::kSweep : Feed::kPartition;
}

}  // namespace sparseagg
