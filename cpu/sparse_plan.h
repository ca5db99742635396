// Plans "sweep", "partition" and "rows": any index space. Memory and time grow with the entries.
// The state between two batches is a sorted run of cells, which the next reduction sweeps along
// like one more update.
#ifndef SPARSEAGG_CPU_SPARSE_PLAN_H_
#define SPARSEAGG_CPU_SPARSE_PLAN_H_

#include <optional>
#include <vector>

#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/plan.h"
#include "cpu/sparse_reduction.h"

namespace sparseagg {

class SparsePlan : public CpuPlan {
 public:
  // Without `feed`, every batch is swept when all of its updates are sorted, and partitioned
  // otherwise.
  SparsePlan(const ReduceSpec& spec, const CpuKernels& kernels, Parallel& parallel,
             std::optional<Feed> feed);

  void Fold(std::vector<PendingUpdate> batch) override;
  void Merge(CellRun run) override;
  CellRun State() override { return state_; }
  absl::StatusOr<SparseSums> Finish(std::vector<PendingUpdate> batch, double total_weight) override;
  uint64_t MemoryBytes() const override;

 private:
  Feed FeedOf(std::vector<PendingUpdate>& batch) const;

  const ReduceSpec spec_;
  const CpuKernels& kernels_;
  Parallel& parallel_;
  const std::optional<Feed> feed_;
  CellRun state_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_SPARSE_PLAN_H_
