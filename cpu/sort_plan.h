// Plan "sort": any workload, any index space. Memory and time grow with the entries, not with the
// index space.
//
//   1. cut the updates of the batch into pieces, sort each piece by row (canonical updates already
//   are);
//   2. sample rows for borders that split the entries evenly; each range of rows is one task;
//   3. a task gathers its entries from every piece by binary search, sorts them by (row, update)
//   and sums the runs;
//   4. the ranges, concatenated, are a partial aggregate. Partials are merged like the levels of a
//   log-structured
//      tree, so that every entry is merged O(log(batches)) times.
#ifndef SPARSEAGG_CPU_SORT_PLAN_H_
#define SPARSEAGG_CPU_SORT_PLAN_H_

#include <cstdint>
#include <vector>

#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/plan.h"

namespace sparseagg {

class SortPlan : public CpuPlan {
 public:
  SortPlan(const ReduceSpec& spec, const CpuKernels& kernels, Parallel& parallel);

  void Fold(std::span<const PendingUpdate> batch) override;
  void Merge(Partial partial) override;
  Partial State() override;
  Partial TakeState() override;
  uint64_t MemoryBytes() const override;

 private:
  Partial Empty() const;
  void MergeAll();
  void MergeTop();
  std::vector<Piece> SortPieces(std::span<const PendingUpdate> batch);
  std::vector<uint64_t> Borders(std::span<const PendingUpdate> batch,
                                std::span<const Piece> pieces) const;
  void ReduceRange(const FoldContext& context, std::span<const Piece> pieces, uint64_t low,
                   uint64_t high, Partial& out) const;
  Partial Concatenate(const std::vector<Partial>& ranges);

  const ReduceSpec spec_;
  const CpuKernels& kernels_;
  Parallel& parallel_;
  bool has_window_ = false;
  int32_t lsb_ = 0;
  std::vector<Partial> levels_;  // each at least twice the rows of the next
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_SORT_PLAN_H_
