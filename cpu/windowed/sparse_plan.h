// Plans "sweep", "partition" and "rows": any index space. Memory and time grow with the entries.
// The state between two batches is a sorted run of cells, which the next reduction merges like one
// more update.
#ifndef SPARSEAGG_CPU_WINDOWED_SPARSE_PLAN_H_
#define SPARSEAGG_CPU_WINDOWED_SPARSE_PLAN_H_

#include <vector>

#include "cpu/kernels/kernels.h"
#include "cpu/parallel.h"
#include "cpu/plan.h"
#include "cpu/windowed/sparse_reduction.h"

namespace sparseagg {

class SparsePlan : public CpuReducer {
 public:
  SparsePlan(const ReduceSpec& spec, const CpuKernels& kernels, Parallel& parallel);

  void Fold(std::vector<PendingUpdate> batch, Feed feed) override;
  void Merge(CellRun run) override;
  CellRun State() override { return state_; }
  absl::StatusOr<SparseSums> Finish(std::vector<PendingUpdate> batch, Feed feed,
                                    double total_weight) override;
  uint64_t MemoryBytes() const override;

 private:
  const ReduceSpec spec_;
  const CpuKernels& kernels_;
  Parallel& parallel_;
  CellRun state_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_SPARSE_PLAN_H_
