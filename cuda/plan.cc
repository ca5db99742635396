#include "cuda/plan.h"

#include <utility>

#include "cuda/kernels/merge_runs.h"
#include "cuda/kernels/thrust_sort_reduce.h"

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
  const Run& State(Queue&) override { return state_; }
  void Clear() override { state_ = {}; }
  uint64_t bytes() const override { return state_.bytes(); }

 private:
  const SlotRule rule_;
  const BatchReducer reduce_;
  Run state_;
};

constexpr DevicePlanRow kPlans[] = {
    {"thrust_sort_reduce", &ReduceByThrust},
};

}  // namespace

std::span<const DevicePlanRow> DevicePlans() { return kPlans; }

std::unique_ptr<DevicePlan> MakeDevicePlan(std::string_view name, const SlotRule& rule, uint64_t) {
  for (const DevicePlanRow& row : kPlans) {
    if (row.name == name) return std::make_unique<SortedPlan>(rule, row.reduce);
  }
  return nullptr;
}

}  // namespace sparseagg::gpu
