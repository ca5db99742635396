#include "cuda/plan.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "cuda/kernels/cusparse/cusparse.h"
#include "cuda/kernels/cusparse/cusparse_dense.h"
#include "cuda/kernels/cusparse/cusparse_spmm.h"
#include "cuda/kernels/dense_state.h"
#include "cuda/kernels/sort/radix_segments.h"
#include "cuda/kernels/sort/thrust_sort_reduce.h"
#include "cuda/kernels/tiles/merge_runs.h"
#include "cuda/kernels/tiles/tile_merge.h"

namespace sparseagg::gpu {
namespace {

// Every batch becomes a run. The state is a few runs, from large to small: a new one is merged with
// those before it that are at most kRatio times as large, one after another, so each is more than
// that larger than the next. Of N batches there are at most log(N) runs, an entry is merged log(N)
// times, and the state is read and written about twice when the result is made (O'Neil et al., The
// log-structured merge-tree, 1996). All runs but the last are counted.
class SortedPlan : public DeviceReducer {
 public:
  SortedPlan(const SlotRule& rule, BatchReducer reduce) : rule_(rule), reduce_(reduce) {}

  void Fold(Queue& queue, const BatchView& batch) override {
    Join(queue, reduce_(queue, batch, rule_));
  }
  void Join(Queue& queue, SlotRun run) override {
    size_t kept = runs_.size();
    for (; kept > 0 && runs_[kept - 1].size <= kRatio * run.size; --kept) {
      run = MergeRuns(queue, rule_, runs_[kept - 1], run);
    }
    runs_.reserve(kept + 1);
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(kept), runs_.end());
    runs_.push_back(std::move(run));
  }
  const uint64_t* number() const override {
    return runs_.empty() ? nullptr : runs_.back().number.data();
  }
  void SetCount(Queue& queue, uint64_t rows) override {
    gpu::SetCount(queue, rule_, rows, runs_.back());
  }
  void WithState(Queue& queue, absl::FunctionRef<void(const SlotRun&)> f) override {
    MergeAll(queue);
    if (runs_.empty()) return f(SlotRun());
    f(runs_[0]);
  }
  void ForEachRun(Queue& queue, absl::FunctionRef<void(const SlotRun&)> f) override {
    for (SlotRun& run : runs_) {
      CountRows(queue, run);
      f(run);
    }
  }
  std::shared_ptr<const SlotRun> Share(Queue& queue) override {
    MergeAll(queue);
    if (runs_.empty()) return std::make_shared<SlotRun>();
    return {std::shared_ptr<const SlotRun>(), &runs_[0]};  // owns nothing
  }
  bool Compact(Queue& queue) override {
    if (runs_.size() < 2) return false;
    const uint64_t before = bytes();
    try {
      MergeAll(queue);
    } catch (const CudaError& error) {
      if (!error.out_of_memory()) throw;
      queue.Synchronize();
    }
    return bytes() < before;
  }
  void Clear() override { runs_.clear(); }
  uint64_t bytes() const override {
    uint64_t bytes = 0;
    for (const SlotRun& run : runs_) bytes += run.bytes();
    return bytes;
  }

 private:
  static constexpr uint64_t kRatio = 2;

  // Leaves at most one run, of the memory that it needs.
  void MergeAll(Queue& queue) {
    while (runs_.size() > 1) {
      SlotRun merged = MergeRuns(queue, rule_, runs_[runs_.size() - 2], runs_.back());
      runs_.pop_back();
      runs_.back() = std::move(merged);
      CountRows(queue, runs_.back());
      gpu::SetCount(queue, rule_, runs_.back().size, runs_.back());
    }
    if (!runs_.empty()) CountRows(queue, runs_[0]);
  }

  const SlotRule rule_;
  const BatchReducer reduce_;
  std::vector<SlotRun> runs_;
};

// Atomics on one address take about a nanosecond each, those of 10^8 others together 5 ms (model).
constexpr double kHotShare = 1.0 / 64;

// Slots of the whole index space.
class DensePlan : public DeviceReducer {
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
  void Join(Queue& queue, SlotRun run) override {
    Prepare(queue);
    AddRun(queue, rule_, run, state_);
  }
  void WithState(Queue& queue, absl::FunctionRef<void(const SlotRun&)> f) override {
    f(state_.num_rows == 0 ? SlotRun() : list_(queue, rule_, state_));
  }
  std::shared_ptr<const SlotRun> Share(Queue& queue) override {
    return std::make_shared<SlotRun>(state_.num_rows == 0 ? SlotRun()
                                                          : list_(queue, rule_, state_));
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

SlotRun ReduceSorted(Queue& queue, const BatchView& batch, const SlotRule& rule) {
  return CanMergeTiles(batch, rule) ? MergeTiles(queue, batch, rule)
                                    : ReduceByRadix(queue, batch, rule);
}

SlotRun ReduceSums(Queue& queue, const BatchView& batch, const SlotRule& rule) {
  return rule.values == ValueSlots::kExactSum ? ReduceBySpmm(queue, batch, rule)
                                              : ReduceByRadix(queue, batch, rule);
}

constexpr size_t kCusparsePlans = 2;
constexpr DevicePlan kPlans[] = {
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

std::span<const DevicePlan> DevicePlans() {
  return std::span<const DevicePlan>(kPlans).subspan(HaveCusparse() ? 0 : kCusparsePlans);
}

const DevicePlan* FindDevicePlan(std::string_view name) {
  for (const DevicePlan& row : DevicePlans()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::unique_ptr<DeviceReducer> MakeDeviceReducer(std::string_view name, const SlotRule& rule,
                                                 uint64_t num_rows) {
  const DevicePlan* row = FindDevicePlan(name);
  if (row == nullptr) return nullptr;
  if (row->list != nullptr) return std::make_unique<DensePlan>(rule, num_rows, row->list);
  return std::make_unique<SortedPlan>(rule, row->reduce);
}

}  // namespace sparseagg::gpu
