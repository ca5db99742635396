#include "sparse/failover_backend.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

// The state that the aggregators of one failover back end share.
struct BackendPair {
  std::unique_ptr<Backend> first;
  std::shared_ptr<Backend> second;
  FailoverOptions options;
  std::atomic<bool> reported{false};

  void ReportLoss(const absl::Status& fault) {
    if (first->health().ok() || reported.exchange(true) || !options.on_loss) return;
    options.on_loss(fault);
  }
  absl::StatusOr<std::unique_ptr<Aggregator>> NewSecondAggregator(const Plan& plan) {
    SPARSEAGG_ASSIGN_OR_RETURN(const Plan own, MakePlan(plan.spec, plan.workload, second->info()));
    return second->NewAggregator(own);
  }
};

// Returns an update that refers to the entries of `update`, which must outlive it.
StagedUpdate Borrow(const StagedUpdate& update) {
  StagedUpdate borrowed;
  borrowed.entries = update.entries;
  borrowed.order = update.order;
  borrowed.memory = {update.memory.get(), [](void*) {}};
  borrowed.bytes = update.bytes;
  return borrowed;
}

class FailoverAggregator : public Aggregator {
 public:
  FailoverAggregator(BackendPair& pair, const Plan& plan, std::shared_ptr<Aggregator> first)
      : pair_(pair), plan_(plan), first_(first.get()), current_(std::move(first)) {}

  absl::StatusOr<StagedUpdate> Stage(uint64_t nnz) const override {
    return current_.load()->Stage(nnz);
  }

  absl::StatusOr<StagedUpdate> StageIncremental(uint64_t nnz,
                                                CompactRowForms forms) const override {
    const auto current = current_.load();
    // Updates of the first back end may be passed to the second one, which may not support compact
    // forms of rows.
    return current->StageIncremental(nnz, current.get() == first_ ? CompactRowForms{} : forms);
  }

  absl::Status Accumulate(StagedUpdate update, float weight) override {
    SPARSEAGG_RETURN_IF_ERROR(broken_);
    if (failed_over_) return current_.load()->Accumulate(std::move(update), weight);
    const absl::Status status = current_.load()->Accumulate(Borrow(update), weight);
    if (!status.ok() && !IsProcessorFault(status)) return status;
    kept_bytes_ += update.bytes;
    kept_.push_back({std::move(update), weight});
    if (!status.ok()) return FailOver(status);
    if (kept_bytes_ < std::max(pair_.options.kept_bytes_min, fetched_bytes_)) return status;
    return FetchState();
  }

  absl::Status Merge(const Partial& partial) override {
    SPARSEAGG_RETURN_IF_ERROR(broken_);
    const absl::Status status = current_.load()->Merge(partial);
    if (failed_over_ || (!status.ok() && !IsProcessorFault(status))) return status;
    fetched_bytes_ += MemoryBytes(partial);
    fetched_.push_back(partial);
    return status.ok() ? status : FailOver(status);
  }

  // Without a fault the states meet on their processors. What the other one kept is kept here then:
  // this processor may fail before the result is made.
  absl::Status Absorb(Aggregator& aggregator) override {
    auto* const other = dynamic_cast<FailoverAggregator*>(&aggregator);
    if (other == nullptr) return Aggregator::Absorb(aggregator);
    SPARSEAGG_RETURN_IF_ERROR(broken_);
    SPARSEAGG_RETURN_IF_ERROR(other->broken_);
    if (failed_over_ || other->failed_over_) return Aggregator::Absorb(aggregator);
    SPARSEAGG_RETURN_IF_ERROR(current_.load()->Absorb(*other->current_.load()));
    std::move(other->kept_.begin(), other->kept_.end(), std::back_inserter(kept_));
    std::move(other->fetched_.begin(), other->fetched_.end(), std::back_inserter(fetched_));
    kept_bytes_ += other->kept_bytes_;
    fetched_bytes_ += other->fetched_bytes_;
    other->DiscardKept();
    return absl::OkStatus();
  }

  absl::Status Flush() override {
    SPARSEAGG_RETURN_IF_ERROR(broken_);
    const absl::Status status = current_.load()->Flush();
    return !failed_over_ && IsProcessorFault(status) ? FailOver(status) : status;
  }

  absl::StatusOr<Partial> Snapshot() override {
    SPARSEAGG_RETURN_IF_ERROR(broken_);
    absl::StatusOr<Partial> state = current_.load()->Snapshot();
    if (failed_over_ || state.ok() || !IsProcessorFault(state.status())) return state;
    SPARSEAGG_RETURN_IF_ERROR(FailOver(state.status()));
    return current_.load()->Snapshot();
  }

  uint64_t memory_bytes() const override {
    return current_.load()->memory_bytes() + kept_bytes_ + fetched_bytes_;
  }

  PlanReport plan_report() const override {
    PlanReport report = current_.load()->plan_report();
    if (failed_over_) report.reason = absl::StrCat(fault_, "; ", report.reason);
    return report;
  }

  absl::StatusOr<Aggregate> Report() && override {
    SPARSEAGG_RETURN_IF_ERROR(broken_);
    absl::StatusOr<Aggregate> result = std::move(*current_.load()).Report();
    if (!failed_over_ && !result.ok() && IsProcessorFault(result.status())) {
      SPARSEAGG_RETURN_IF_ERROR(FailOver(result.status()));
      result = std::move(*current_.load()).Report();
    }
    DiscardKept();
    return result;
  }

 private:
  struct Kept {
    StagedUpdate update;
    float weight;
  };

  // Fetches the state of the first back end, which replaces the kept updates.
  absl::Status FetchState() {
    absl::StatusOr<Partial> state = current_.load()->Snapshot();
    if (!state.ok()) {
      if (IsProcessorFault(state.status())) return FailOver(state.status());
      return broken_ = state.status();
    }
    DiscardKept();
    fetched_bytes_ = MemoryBytes(*state);
    fetched_.push_back(*std::move(state));
    return absl::OkStatus();
  }

  absl::Status FailOver(const absl::Status& fault) {
    pair_.ReportLoss(fault);
    return broken_ = ReplayOnSecond(fault);
  }

  absl::Status ReplayOnSecond(const absl::Status& fault) {
    SPARSEAGG_ASSIGN_OR_RETURN(std::shared_ptr<Aggregator> second,
                               pair_.NewSecondAggregator(plan_));
    fault_ = std::string(fault.message());
    failed_over_ = true;
    current_ = second;  // destroys the first aggregator and its references to the kept updates
    for (const Partial& partial : fetched_) SPARSEAGG_RETURN_IF_ERROR(second->Merge(partial));
    for (Kept& kept : kept_) {
      SPARSEAGG_RETURN_IF_ERROR(second->Accumulate(std::move(kept.update), kept.weight));
    }
    DiscardKept();
    return absl::OkStatus();
  }

  void DiscardKept() {
    kept_.clear();
    fetched_.clear();
    kept_bytes_ = fetched_bytes_ = 0;
  }

  BackendPair& pair_;
  const Plan plan_;
  std::vector<Kept> kept_;  // declared before current_, which refers to these updates
  uint64_t kept_bytes_ = 0;
  std::vector<Partial> fetched_;
  uint64_t fetched_bytes_ = 0;
  bool failed_over_ = false;
  std::string fault_;
  // An error after which the state lacks an update that was counted, or holds a part of what was
  // kept. Every later call returns it.
  absl::Status broken_;
  const Aggregator* const first_;                     // used for comparison only
  std::atomic<std::shared_ptr<Aggregator>> current_;  // Stage() may run while it changes
};

class FailoverBackend : public Backend {
 public:
  FailoverBackend(std::unique_ptr<Backend> first, std::shared_ptr<Backend> second,
                  FailoverOptions options)
      : pair_{std::move(first), std::move(second), std::move(options)}, info_(pair_.first->info()) {
    // Kept updates take memory, too.
    info_.cost = [cost = info_.cost](const BackendInfo& info, std::string_view plan,
                                     const ReduceSpec& spec, const Workload& workload) {
      PlanCost with_kept = cost(info, plan, spec, workload);
      with_kept.entry_bytes += sizeof(uint64_t) + spec.layout.row_bytes();
      return with_kept;
    };
  }

  const BackendInfo& info() const override { return info_; }
  absl::Status health() const override { return pair_.first->health(); }
  std::vector<DeviceStats> device_stats() const override { return pair_.first->device_stats(); }

  absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) override {
    absl::StatusOr<std::unique_ptr<Aggregator>> first = pair_.first->NewAggregator(plan);
    if (first.ok()) {
      return std::make_unique<FailoverAggregator>(pair_, plan, *std::move(first));
    }
    if (!IsProcessorFault(first.status())) return first.status();
    pair_.ReportLoss(first.status());
    return pair_.NewSecondAggregator(plan);
  }

 private:
  BackendPair pair_;
  BackendInfo info_;
};

}  // namespace

bool IsProcessorFault(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         (status.code() == absl::StatusCode::kResourceExhausted &&
          ErrorReason(status) != "TOO_MANY_ENTRIES");
}

std::unique_ptr<Backend> MakeFailoverBackend(std::unique_ptr<Backend> first,
                                             std::shared_ptr<Backend> second,
                                             FailoverOptions options) {
  return std::make_unique<FailoverBackend>(std::move(first), std::move(second), std::move(options));
}

}  // namespace sparseagg
