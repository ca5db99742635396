// Plan "dense": one slot for every coordinate of the index space, kept over the whole round. For
// small index spaces and dense tensors; no sorting, memory is that of the index space.
//
// Each task owns a rectangle of the slots (rows x columns) and passes over all entries of the
// batch; so slots are written by one thread only, without atomics.
#ifndef SPARSEAGG_CPU_DENSE_PLAN_H_
#define SPARSEAGG_CPU_DENSE_PLAN_H_

#include <cstdint>
#include <vector>

#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/plan.h"

namespace sparseagg {

class DensePlan : public CpuPlan {
 public:
  DensePlan(const ReduceSpec& spec, const CpuKernels& kernels, Parallel& parallel);

  void Fold(std::span<const PendingUpdate> batch) override;
  void Merge(Partial partial) override;
  Partial State() override;
  uint64_t MemoryBytes() const override;

 private:
  std::vector<SlotRectangle> MakeTasks() const;
  std::vector<Piece> SortUpdates(std::span<const PendingUpdate> batch);
  void MoveWindow(int32_t lsb);

  const ReduceSpec spec_;
  const CpuKernels& kernels_;
  Parallel& parallel_;
  const uint32_t width_;
  const std::vector<SlotRectangle> tasks_;
  std::vector<Int128> slots_;          // [num_rows, width_]
  std::vector<uint64_t> last_holder_;  // [num_rows], the last update that held the row; 0: none
  uint64_t updates_ = 0;               // numbers given to updates and merged partials, from 1
  uint64_t addends_ = 0;
  bool has_window_ = false;
  int32_t lsb_ = 0;
  std::vector<SideEntry> side_;  // sorted
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_DENSE_PLAN_H_
