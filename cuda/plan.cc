#include "cuda/plan.h"

#include <utility>

#include "cuda/kernels/cusparse.h"
#include "cuda/kernels/cusparse_dense.h"
#include "cuda/kernels/cusparse_spmm.h"
#include "cuda/kernels/dense_state.h"
#include "cuda/kernels/merge_runs.h"
#include "cuda/kernels/radix_segments.h"
#include "cuda/kernels/thrust_sort_reduce.h"
#include "cuda/kernels/tile_merge.h"

namespace sparseagg::gpu {
namespace {

// Every batch becomes a run, which is merged into the state.
class SortedPlan : public DevicePlan {
 public:
  SortedPlan(const SlotRule& rule, BatchReducer reduce) : rule_(rule), reduce_(reduce) {}

  void Fold(Queue& queue, const BatchView& batch) override {
    Join(queue, reduce_(queue, batch, rule_));
  }
  void Join(Queue& queue, Run run) override {
    state_ = state_.size == 0 ? std::move(run) : MergeRuns(queue, rule_, state_, run);
  }
  const uint64_t* number() const override { return state_.number.data(); }
  void SetCount(Queue& queue, uint64_t rows) override { gpu::SetCount(queue, rule_, rows, state_); }
  void WithState(Queue& queue, absl::FunctionRef<void(const Run&)> f) override {
    CountRows(queue, state_);
    f(state_);
  }
  void Clear() override { state_ = {}; }
  uint64_t bytes() const override { return state_.bytes(); }

 private:
  const SlotRule rule_;
  const BatchReducer reduce_;
  Run state_;
};

// Atomics on one address take about a nanosecond each, those of 10^8 others together 5 ms (model).
constexpr double kHotShare = 1.0 / 64;

// Slots of the whole index space.
class DensePlan : public DevicePlan {
 public:
  DensePlan(const SlotRule& rule, uint64_t num_rows, DenseLister list)
      : rule_(rule), num_rows_(num_rows), list_(list) {}

  void Fold(Queue& queue, const BatchView& batch) override {
    // Where an update counts once in a row, its duplicates are gathered first; and where so many
    // entries are of one row that its atomics would wait for each other, they are summed first.
    const bool once = rule_.extreme() || rule_.row != RowSlot::kNone;
    if ((once && batch.order != EntryOrder::kCanonical) || batch.hottest_share > kHotShare) {
      return Join(queue, ReduceByRadix(queue, batch, rule_));
    }
    Prepare(queue);
    AddBatch(queue, rule_, batch, state_);
  }
  void Join(Queue& queue, Run run) override {
    Prepare(queue);
    AddRun(queue, rule_, run, state_);
  }
  void WithState(Queue& queue, absl::FunctionRef<void(const Run&)> f) override {
    f(state_.num_rows == 0 ? Run() : list_(queue, rule_, state_));
  }
  void Clear() override { state_ = {}; }
  uint64_t bytes() const override {
    return state_.slots.bytes() + state_.keys.bytes() + state_.held.bytes();
  }

 private:
  void Prepare(Queue& queue) {
    if (state_.num_rows == 0) state_ = MakeDenseState(queue, rule_, num_rows_);
  }

  const SlotRule rule_;
  const uint64_t num_rows_;
  const DenseLister list_;
  DenseState state_;  // of no rows until the first batch
};

Run ReduceSorted(Queue& queue, const BatchView& batch, const SlotRule& rule) {
  return CanMergeTiles(batch, rule) ? MergeTiles(queue, batch, rule)
                                    : ReduceByRadix(queue, batch, rule);
}

Run ReduceSums(Queue& queue, const BatchView& batch, const SlotRule& rule) {
  return rule.values == ValueSlots::kExactSum ? ReduceBySpmm(queue, batch, rule)
                                              : ReduceByRadix(queue, batch, rule);
}

constexpr size_t kCusparsePlans = 2;
constexpr DevicePlanRow kPlans[] = {
    // First: left out where the library is missing.
    {.name = "cusparse_spmm", .reduce = &ReduceSums},
    {.name = "cusparse_dense", .list = &ListHeldByCusparse},
    {.name = "dense_accumulate", .list = &ListHeld},
    {.name = "tile_merge", .reduce = &ReduceSorted},
    {.name = "row_reduce", .reduce = &ReduceRows, .rounder = {&CanRoundRows, &RoundRows}},
    {.name = "thrust_sort_reduce", .reduce = &ReduceByThrust},
    {.name = "radix_segments", .reduce = &ReduceByRadix},
};

}  // namespace

std::span<const DevicePlanRow> DevicePlans() {
  return std::span<const DevicePlanRow>(kPlans).subspan(HaveCusparse() ? 0 : kCusparsePlans);
}

const DevicePlanRow* FindDevicePlan(std::string_view name) {
  for (const DevicePlanRow& row : DevicePlans()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::unique_ptr<DevicePlan> MakeDevicePlan(std::string_view name, const SlotRule& rule,
                                           uint64_t num_rows) {
  const DevicePlanRow* row = FindDevicePlan(name);
  if (row == nullptr) return nullptr;
  if (row->list != nullptr) return std::make_unique<DensePlan>(rule, num_rows, row->list);
  return std::make_unique<SortedPlan>(rule, row->reduce);
}

}  // namespace sparseagg::gpu
