#include "cpu/cpu_backend.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cgroup_limits.h"
#include "base/status.h"
#include "cpu/cost_model.h"
#include "cpu/kernels/kernels.h"
#include "cpu/parallel.h"
#include "cpu/plan_table.h"
#include "cpu/staging.h"
#include "cpu/state/entry_tally.h"
#include "cpu/state/instruction_set.h"
#include "cpu/state/tuning.h"
#include "cpu/windowed/cell_run.h"

namespace sparseagg {
namespace {

// Bytes of a pending update and its cursor, beside its entries: most of what a very small update
// takes.
constexpr uint64_t kUpdateBytes = 512;

absl::Status OutOfMemory(const ReduceSpec& spec) {
  return MakeError(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY",
                   absl::StrCat("tensor \"", spec.name, "\": no memory left to reduce it"));
}

// The counts of entries do not agree: a bug of this program, so there is no result.
absl::Status NotExact(const ReduceSpec& spec, std::string_view what) {
  return MakeError(
      absl::StatusCode::kInternal, "NOT_EXACT",
      absl::StrCat("tensor \"", spec.name, "\": ", std::string(what),
                   "; a fault of the server, so there is no result: please report it"));
}

// Runs f. Returns a status when memory runs out, or when counts of entries do not agree.
template <class F>
absl::Status Guarded(const ReduceSpec& spec, const F& f) {
  try {
    f();
  } catch (const std::bad_alloc&) {
    return OutOfMemory(spec);
  } catch (const BrokenInvariant& broken) {
    return NotExact(spec, broken.what());
  }
  return absl::OkStatus();
}

// The time that every reduction takes, however few its entries are: memory for its windows, and
// threads that wake up. The cost model leaves it out, since it is the same for all plans.
constexpr double kReductionSeconds = 50e-6;

class CpuAggregator : public Aggregator {
 public:
  CpuAggregator(const BackendInfo& info, const Plan& plan, const CpuKernels& kernels,
                Parallel& parallel)
      : info_(info),
        kernels_(kernels),
        parallel_(parallel),
        spec_(plan.spec),
        at_once_(plan.workload.at_once),
        forced_(plan.forced),
        adaptive_(plan.adaptive),
        report_{.plan = plan.name, .reason = plan.reason},
        plan_(&CpuPlanNamed(plan.name)),
        reducer_(plan_->make(plan.spec, kernels, parallel)),
        dense_(plan_->dense) {}

  absl::StatusOr<StagedUpdate> Stage(uint64_t nnz) const override {
    return staging_.Stage(spec_.layout, nnz);
  }

  // Rows stay packed, or narrow, where they will be added to a dense state. An update that holds a
  // quarter of the rows makes the state dense, and so do pending updates that may hold half of
  // them. Each such update is visited for every few thousand rows of the state, so it must have
  // some entries there.
  absl::StatusOr<StagedUpdate> StageIncremental(uint64_t nnz,
                                                CompactRowForms forms) const override {
    const uint64_t num_rows = spec_.layout.num_rows;
    const bool one_value =
        spec_.layout.row_width == 1 && kernels_.value_bytes > 0 && !kernels_.needs_unique_rows;
    const bool crowded = nnz >= num_rows / 4 || IsHalfOfRows(sorted_pending_ + nnz);
    const bool to_dense = dense_ || (!forced_ && crowded);
    const bool few = nnz < num_rows / 256;
    if (!one_value || !to_dense || few) return StageOnHeap(spec_.layout, nnz);
    if (forms.packed_bytes > 0) {
      return StagingArea::StagePacked(spec_.layout, nnz, forms.packed_bytes);
    }
    if (forms.narrow && nnz >= kSmallEntries && nnz <= NarrowRows::kNnzMax) {
      return StagingArea::StageNarrow(spec_.layout, nnz);
    }
    return StageOnHeap(spec_.layout, nnz);
  }

  absl::Status Accumulate(StagedUpdate update, float weight) override {
    const uint64_t nnz = update.entries.nnz;
    SPARSEAGG_RETURN_IF_ERROR(broken_);
    SPARSEAGG_RETURN_IF_ERROR(CheckAddends(spec_, addends_, nnz));
    if (update.entries.rows.wide() == nullptr && nnz > 0 && !dense_) {
      SPARSEAGG_RETURN_IF_ERROR(Guarded(spec_, [&] {
        SwitchToDense(
            "an update holds a quarter of the rows, or pending updates may hold half of them");
      }));
    }
    if (nnz > 0) {
      const uint64_t rows_bytes = update.narrow_rows == nullptr ? 0 : update.narrow_rows->bytes();
      const uint64_t bytes = update.bytes + rows_bytes + kUpdateBytes;
      const bool sorted = update.order >= EntryOrder::kSorted;
      // The sign bit is reserved for entries after the first of their row (canonical.h), so -0
      // becomes 0.
      SPARSEAGG_RETURN_IF_ERROR(Guarded(spec_, [&] {
        pending_.push_back({std::move(update), std::fabs(weight)});
      }));
      pending_bytes_ += bytes;
      if (sorted) sorted_pending_ += nnz;
    }
    ++contributors_;
    addends_ += nnz;
    total_weight_.Add(weight);
    if (at_once_ || pending_bytes_ < BatchBytes(reducer_->MemoryBytes())) return absl::OkStatus();
    return Fold();
  }

  absl::Status Merge(Partial partial) override {
    SPARSEAGG_RETURN_IF_ERROR(broken_);
    absl::Status mergeable;
    SPARSEAGG_RETURN_IF_ERROR(Guarded(spec_, [&] {
      Partial own;
      own.spec = spec_;
      own.addends = addends_;
      mergeable = CheckMergeable(own, partial);
    }));
    SPARSEAGG_RETURN_IF_ERROR(mergeable);
    const uint64_t contributors = partial.contributors;
    const uint64_t addends = partial.addends;
    const WideInteger total_weight = partial.total_weight;
    const absl::Status merged =
        Guarded(spec_, [&] { reducer_->Merge(FromPartial(spec_, std::move(partial))); });
    if (dense_) broken_ = merged;  // some of its cells may have the sums already
    SPARSEAGG_RETURN_IF_ERROR(merged);
    contributors_ += contributors;
    addends_ += addends;
    folded_ += addends;
    total_weight_.Add(total_weight);
    return absl::OkStatus();
  }

  absl::StatusOr<Partial> Snapshot() override {
    SPARSEAGG_RETURN_IF_ERROR(broken_);
    SPARSEAGG_RETURN_IF_ERROR(Fold());
    Partial state;
    SPARSEAGG_RETURN_IF_ERROR(Guarded(spec_, [&] { state = ToPartial(spec_, reducer_->State()); }));
    state.contributors = contributors_;
    state.total_weight = total_weight_;
    state.addends = addends_;
    return state;
  }

  PlanReport plan_report() const override { return report_; }

  uint64_t memory_bytes() const override {
    return pending_bytes_ + (reducer_ == nullptr ? 0 : reducer_->MemoryBytes());
  }

  absl::StatusOr<Aggregate> Report() && override {
    SPARSEAGG_RETURN_IF_ERROR(broken_);
    SPARSEAGG_RETURN_IF_ERROR(Guarded(spec_, [&] { ChoosePlanForPending(); }));
    absl::StatusOr<SparseSums> sums = SparseSums{};
    SPARSEAGG_RETURN_IF_ERROR(Timed(DenseStep::kReport, [&](Feed feed) {
      sums = reducer_->Finish(std::exchange(pending_, {}), feed, total_weight_.ToDouble());
    }));
    reducer_ = nullptr;
    pending_bytes_ = 0;
    SPARSEAGG_RETURN_IF_ERROR(sums.status());
    SPARSEAGG_RETURN_IF_ERROR(Guarded(spec_, [&] { ExpectAdded(folded_, addends_); }));
    Aggregate result;
    result.tensor = {ResultLayout(spec_), std::move(sums->rows), std::move(sums->values)};
    result.infinite_values = sums->infinite_values;
    result.addends = folded_;
    return result;
  }

 private:
  absl::Status Fold() {
    if (pending_.empty()) return absl::OkStatus();
    SPARSEAGG_RETURN_IF_ERROR(Guarded(spec_, [&] { SwitchToDenseIfHalfFull(); }));
    pending_bytes_ = 0;
    sorted_pending_ = 0;
    SPARSEAGG_RETURN_IF_ERROR(Timed(
        DenseStep::kFold, [&](Feed feed) { reducer_->Fold(std::exchange(pending_, {}), feed); }));
    staging_.Trim();
    return absl::OkStatus();
  }

  // If nothing has been folded yet, all updates are known now, and so is the cheapest plan.
  void ChoosePlanForPending() {
    if (!adaptive_ || dense_ || pending_.empty() || reducer_->MemoryBytes() > 0) return;
    const absl::StatusOr<Plan> plan = MakePlan(spec_, PendingWorkload(), info_);
    report_.reason = plan->reason;
    if (CpuPlanNamed(plan->name).dense) MakeDense();
  }

  // Every batch merges with a sorted state. Once the state may hold half of the rows, a cell for
  // every row takes no more memory than a fold does, and needs no merging. Unsorted entries, whose
  // cells lie far apart, may take longer than the merging.
  void SwitchToDenseIfHalfFull() {
    if (forced_ || dense_) return;
    if (!IsHalfOfRows(StateRows() + PendingEntries())) return;
    const Workload pending = PendingWorkload();
    if (pending.order == EntryOrder::kUnsorted &&
        DenseCost(info_, spec_, pending).seconds > RowsCost(info_, spec_, pending).seconds) {
      return;
    }
    SwitchToDense("the state may hold half of the rows or more");
  }

  // Returns the rows of a state that is a sorted run.
  uint64_t StateRows() const {
    const uint64_t cell_bytes =
        uint64_t{spec_.layout.row_width} * kernels_.value_bytes + kernels_.row_bytes;
    return reducer_->MemoryBytes() / (sizeof(uint64_t) + cell_bytes);
  }

  // Returns whether `rows` is at least half of all rows.
  bool IsHalfOfRows(uint64_t rows) const {
    const uint64_t num_rows = spec_.layout.num_rows;
    return rows >= num_rows / 2 + num_rows % 2;
  }

  void SwitchToDense(std::string_view why) {
    MakeDense();
    absl::StrAppend(&report_.reason, "; switched to dense: ", std::string(why));
  }

  void MakeDense() {
    const CpuPlan& plan = DenseCpuPlan();
    std::unique_ptr<CpuReducer> dense = plan.make(spec_, kernels_, parallel_);
    dense->Merge(reducer_->State());
    reducer_ = std::move(dense);
    SetPlan(plan);
    dense_ = true;
  }

  uint64_t PendingEntries() const {
    uint64_t entries = 0;
    for (const PendingUpdate& update : pending_) entries += update.staged.entries.nnz;
    return entries;
  }

  // Returns the pending updates as a workload that is reduced at once.
  Workload PendingWorkload() const {
    Workload workload{
        .contributors = pending_.size(), .order = EntryOrder::kCanonical, .at_once = true};
    for (const PendingUpdate& update : pending_) {
      if (!IsReady(update, Need::kSorted)) workload.order = EntryOrder::kUnsorted;
    }
    if (!pending_.empty()) workload.nnz_per_update = PendingEntries() / pending_.size();
    return workload;
  }

  // The same together with a sorted state, which is merged like one more update.
  Workload WithState(Workload workload) const {
    const uint64_t state_rows = StateRows();
    // With neither, the model would assume a round of a usual size, so an empty one counts as one
    // entry.
    const uint64_t entries = std::max<uint64_t>(PendingEntries() + state_rows, 1);
    if (state_rows > 0 || workload.contributors == 0) ++workload.contributors;
    workload.nnz_per_update = std::max<uint64_t>(entries / workload.contributors, 1);
    return workload;
  }

  double Predicted(const Workload& pending, DenseStep step) const {
    if (dense_) return DenseStepSeconds(info_, spec_, pending, folded_, step);
    return plan_->cost(info_, spec_, WithState(pending)).seconds;
  }

  // The plan that a known workload got may not be the one that its updates are reduced with: they
  // are other than the first one, which the workload is known by.
  void SetPlanForBatch(const CpuPlan& plan) {
    if (!adaptive_ && &plan != plan_) {
      report_.reason =
          absl::StrCat("cheaper than ", std::string(plan_->name), " for the updates as they are");
    }
    SetPlan(plan);
  }

  void SetPlan(const CpuPlan& plan) {
    plan_ = &plan;
    report_.plan = std::string(plan.name);
  }

  // Runs f(feed) on the pending updates, and records the plan, the predicted time and the measured
  // time.
  template <class F>
  absl::Status Timed(DenseStep step, const F& f) {
    const auto start = std::chrono::steady_clock::now();
    const Workload workload = PendingWorkload();
    Feed feed = FeedFor(spec_, workload);
    const bool named_by_feed =
        plan_->feed.has_value() || (adaptive_ && !dense_ && spec_.layout.row_width == 1);
    if (forced_) feed = plan_->feed.value_or(feed);
    if (named_by_feed && !pending_.empty()) SetPlanForBatch(CpuPlanOf(feed));
    report_.predicted_seconds += kReductionSeconds + Predicted(workload, step);
    const uint64_t entries = PendingEntries();
    broken_ = Guarded(spec_, [&] { f(feed); });
    if (broken_.ok()) folded_ += entries;
    report_.seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return broken_;
  }

  const BackendInfo& info_;
  const CpuKernels& kernels_;
  Parallel& parallel_;
  const ReduceSpec spec_;
  mutable StagingArea staging_;
  const bool at_once_;
  const bool forced_;
  const bool adaptive_;
  PlanReport report_;
  const CpuPlan* plan_;  // of report_.plan
  std::unique_ptr<CpuReducer> reducer_;
  std::atomic<bool> dense_;  // plan_->dense; StageIncremental() reads it
  uint64_t contributors_ = 0;
  uint64_t addends_ = 0;
  uint64_t folded_ = 0;  // of them, those that a plan has been given
  // An error in the middle of a fold: the state has a part of the batch. Every later call returns
  // it, so that no result lacks entries.
  absl::Status broken_;
  WideInteger total_weight_;
  std::vector<PendingUpdate> pending_;
  uint64_t pending_bytes_ = 0;
  std::atomic<uint64_t> sorted_pending_ = 0;  // their entries; StageIncremental() reads it
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const BackendOptions& options)
      : parallel_(options.threads != 0 ? options.threads : AvailableCpus()) {
    info_.name = "cpu";
    info_.threads = parallel_.threads();
    info_.description = absl::StrCat(info_.threads, " threads, ", InstructionSet());
    info_.memory_bytes =
        options.memory_bytes != 0 ? options.memory_bytes : AvailableMemoryBytes() / 2;
    for (const CpuPlan& plan : CpuPlans()) info_.plans.emplace_back(plan.name);
    info_.cost = &CpuCost;
  }

  const BackendInfo& info() const override { return info_; }

  absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) override {
    const CpuKernels* kernels = KernelsFor(plan.spec.layout.value_type, plan.spec.op);
    if (kernels == nullptr) {
      return MakeError(absl::StatusCode::kInvalidArgument, "UNKNOWN_OPERATOR",
                       absl::StrCat("there is no operator \"", plan.spec.op, "\""));
    }
    std::unique_ptr<Aggregator> aggregator;
    SPARSEAGG_RETURN_IF_ERROR(Guarded(plan.spec, [&] {
      aggregator = std::make_unique<CpuAggregator>(info_, plan, *kernels, parallel_);
    }));
    return aggregator;
  }

 private:
  BackendInfo info_;
  Parallel parallel_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(const BackendOptions& options) {
  return std::make_unique<CpuBackend>(options);
}

}  // namespace sparseagg
