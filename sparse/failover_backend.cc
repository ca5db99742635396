#include "sparse/failover_backend.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

// What the aggregators of one back end share.
struct Pair {
  std::unique_ptr<Backend> first;
  std::unique_ptr<Backend> second;
  FailoverOptions options;
  std::atomic<bool> reported{false};

  void Note(const absl::Status& fault) {
    if (first->health().ok() || reported.exchange(true) || !options.on_loss) return;
    options.on_loss(fault);
  }
  absl::StatusOr<std::unique_ptr<Aggregator>> NewSecond(const Plan& plan) {
    SPARSEAGG_ASSIGN_OR_RETURN(const Plan own, MakePlan(plan.spec, plan.workload, second->info()));
    return second->NewAggregator(own);
  }
};

// The entries of `update`, which must stay.
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
  FailoverAggregator(Pair& pair, const Plan& plan, std::shared_ptr<Aggregator> first)
      : pair_(pair), plan_(plan), first_(first.get()), current_(std::move(first)) {}

  absl::StatusOr<StagedUpdate> Stage(uint64_t nnz) const override {
    return current_.load()->Stage(nnz);
  }

  absl::StatusOr<StagedUpdate> StageArriving(uint64_t nnz, RowForms forms) const override {
    const auto current = current_.load();
    // What the first has may be handed to the second, who need not know other forms of rows.
    return current->StageArriving(nnz, current.get() == first_ ? RowForms{} : forms);
  }

  absl::Status Accumulate(StagedUpdate update, float weight) override {
    if (failed_over_) return current_.load()->Accumulate(std::move(update), weight);
    const absl::Status status = current_.load()->Accumulate(Borrow(update), weight);
    if (!status.ok() && !IsProcessorFault(status)) return status;
    kept_bytes_ += update.bytes;
    kept_.push_back({std::move(update), weight});
    if (!status.ok()) return FailOver(status);
    if (kept_bytes_ < std::max(pair_.options.kept_bytes_min, fetched_bytes_)) return status;
    return Fetch();
  }

  absl::Status Merge(const Partial& partial) override {
    const absl::Status status = current_.load()->Merge(partial);
    if (failed_over_ || (!status.ok() && !IsProcessorFault(status))) return status;
    fetched_bytes_ += MemoryBytes(partial);
    fetched_.push_back(partial);
    return status.ok() ? status : FailOver(status);
  }

  absl::StatusOr<Partial> Snapshot() override {
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
    absl::StatusOr<Aggregate> result = std::move(*current_.load()).Report();
    if (!failed_over_ && !result.ok() && IsProcessorFault(result.status())) {
      SPARSEAGG_RETURN_IF_ERROR(FailOver(result.status()));
      result = std::move(*current_.load()).Report();
    }
    Forget();
    return result;
  }

 private:
  struct Kept {
    StagedUpdate update;
    float weight;
  };

  // The first one's state replaces what was kept.
  absl::Status Fetch() {
    absl::StatusOr<Partial> state = current_.load()->Snapshot();
    if (!state.ok()) {
      return IsProcessorFault(state.status()) ? FailOver(state.status()) : state.status();
    }
    Forget();
    fetched_bytes_ = MemoryBytes(*state);
    fetched_.push_back(*std::move(state));
    return absl::OkStatus();
  }

  absl::Status FailOver(const absl::Status& fault) {
    pair_.Note(fault);
    SPARSEAGG_ASSIGN_OR_RETURN(std::shared_ptr<Aggregator> second, pair_.NewSecond(plan_));
    fault_ = std::string(fault.message());
    failed_over_ = true;
    current_ = second;  // the first one goes, and with it what it has of the updates
    for (const Partial& partial : fetched_) SPARSEAGG_RETURN_IF_ERROR(second->Merge(partial));
    for (Kept& kept : kept_) {
      SPARSEAGG_RETURN_IF_ERROR(second->Accumulate(std::move(kept.update), kept.weight));
    }
    Forget();
    return absl::OkStatus();
  }

  void Forget() {
    kept_.clear();
    fetched_.clear();
    kept_bytes_ = fetched_bytes_ = 0;
  }

  Pair& pair_;
  const Plan plan_;
  std::vector<Kept> kept_;  // before current_: outlives those who borrow
  uint64_t kept_bytes_ = 0;
  std::vector<Partial> fetched_;
  uint64_t fetched_bytes_ = 0;
  bool failed_over_ = false;
  std::string fault_;
  const Aggregator* const first_;                     // only compared with
  std::atomic<std::shared_ptr<Aggregator>> current_;  // Stage() may run beside a change
};

class FailoverBackend : public Backend {
 public:
  FailoverBackend(std::unique_ptr<Backend> first, std::unique_ptr<Backend> second,
                  FailoverOptions options)
      : pair_{std::move(first), std::move(second), std::move(options)}, info_(pair_.first->info()) {
    // Kept updates are memory, too.
    info_.cost = [cost = info_.cost](const BackendInfo& info, std::string_view plan,
                                     const ReduceSpec& spec, const Workload& workload) {
      PlanCost with_kept = cost(info, plan, spec, workload);
      with_kept.entry_bytes += sizeof(uint64_t) + spec.layout.row_bytes();
      return with_kept;
    };
  }

  const BackendInfo& info() const override { return info_; }
  absl::Status health() const override { return pair_.first->health(); }
  std::optional<DeviceStats> device_stats() const override { return pair_.first->device_stats(); }

  absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) override {
    absl::StatusOr<std::unique_ptr<Aggregator>> first = pair_.first->NewAggregator(plan);
    if (first.ok()) {
      return std::make_unique<FailoverAggregator>(pair_, plan, *std::move(first));
    }
    if (!IsProcessorFault(first.status())) return first.status();
    pair_.Note(first.status());
    return pair_.NewSecond(plan);
  }

 private:
  Pair pair_;
  BackendInfo info_;
};

}  // namespace

bool IsProcessorFault(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         (status.code() == absl::StatusCode::kResourceExhausted &&
          ErrorReason(status) != "TOO_MANY_ENTRIES");
}

std::unique_ptr<Backend> MakeFailoverBackend(std::unique_ptr<Backend> first,
                                             std::unique_ptr<Backend> second,
                                             FailoverOptions options) {
  return std::make_unique<FailoverBackend>(std::move(first), std::move(second), std::move(options));
}

}  // namespace sparseagg
