#include "cpu/cpu_backend.h"

#include <unistd.h>

#include <algorithm>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/dense_plan.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/sort_plan.h"
#include "sparse/status.h"
#include "sparse/values.h"

namespace sparseagg {
namespace {

// Entries that wait before they are folded in: enough to share the fixed costs of a fold, few
// enough to stay a small part of memory (24 bytes an entry while it is sorted).
constexpr uint64_t kBatchValues = uint64_t{1} << 22;

absl::Status OutOfMemory(const ReduceSpec& spec) {
  return MakeError(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY",
                   absl::StrCat("tensor \"", spec.name, "\": no memory left to reduce it"));
}

// Runs f, with the lack of memory as a status.
template <class F>
absl::Status Guarded(const ReduceSpec& spec, const F& f) {
  try {
    f();
  } catch (const std::bad_alloc&) {
    return OutOfMemory(spec);
  }
  return absl::OkStatus();
}

std::unique_ptr<CpuPlan> MakeCpuPlan(const Plan& plan, const CpuKernels& kernels,
                                     Parallel& parallel) {
  if (plan.name == "dense") return std::make_unique<DensePlan>(plan.spec, kernels, parallel);
  return std::make_unique<SortPlan>(plan.spec, kernels, parallel);
}

absl::StatusOr<Aggregate> LowerState(Partial state, const CpuKernels& kernels, Parallel& parallel) {
  constexpr size_t kRowsPerTask = 1 << 14;
  Aggregate result;
  SparseTensor& tensor = result.tensor;
  tensor.layout = ResultLayout(state.spec);
  const size_t rows = state.rows.size();
  tensor.values.resize(rows * tensor.layout.row_bytes());
  const double total_weight = state.total_weight.ToDouble();
  const size_t tasks = (rows + kRowsPerTask - 1) / kRowsPerTask;
  std::vector<absl::Status> statuses(tasks);
  std::vector<uint64_t> infinite(tasks, 0);
  parallel.For(tasks, [&](size_t t) {
    const size_t end = std::min(rows, (t + 1) * kRowsPerTask);
    statuses[t] = kernels.lower_rows(state, total_weight, t * kRowsPerTask, end,
                                     tensor.values.data(), infinite[t]);
  });
  // The first error in order of rows, whatever thread met one first.
  for (size_t t = 0; t < tasks; ++t) {
    if (!statuses[t].ok()) return statuses[t];
    result.infinite_values += infinite[t];
  }
  tensor.indices = std::move(state.rows);
  return result;
}

class CpuAggregator : public Aggregator {
 public:
  CpuAggregator(const Plan& plan, const CpuKernels& kernels, Parallel& parallel)
      : spec_(plan.spec),
        name_(plan.name),
        reason_(plan.reason),
        kernels_(kernels),
        parallel_(parallel),
        plan_(MakeCpuPlan(plan, kernels, parallel)) {}

  absl::StatusOr<StagedUpdate> Stage(uint64_t nnz) const override {
    return StageOnHeap(spec_.layout, nnz);
  }

  absl::Status Accumulate(StagedUpdate update, float weight) override {
    const uint64_t nnz = update.entries.nnz;
    SPARSEAGG_RETURN_IF_ERROR(CheckAddends(spec_, addends_, nnz));
    ++contributors_;
    addends_ += nnz;
    total_weight_.Add(weight);
    if (nnz == 0) return absl::OkStatus();
    pending_bytes_ += update.bytes;
    pending_.push_back({std::move(update), weight});
    pending_values_ += nnz * spec_.layout.row_width;
    return pending_values_ < kBatchValues ? absl::OkStatus() : Flush();
  }

  absl::Status Merge(const Partial& partial) override {
    Partial own;
    own.spec = spec_;
    own.addends = addends_;
    SPARSEAGG_RETURN_IF_ERROR(CheckMergeable(own, partial));
    contributors_ += partial.contributors;
    addends_ += partial.addends;
    total_weight_.Add(partial.total_weight);
    return Guarded(spec_, [&] { plan_->Merge(partial); });
  }

  absl::StatusOr<Partial> Snapshot() override {
    SPARSEAGG_RETURN_IF_ERROR(Flush());
    Partial state;
    SPARSEAGG_RETURN_IF_ERROR(Guarded(spec_, [&] { state = State(); }));
    return state;
  }

  PlanReport plan_report() const override { return {.plan = name_, .reason = reason_}; }

  uint64_t memory_bytes() const override { return pending_bytes_ + plan_->MemoryBytes(); }

  absl::StatusOr<Aggregate> Report() && override {
    SPARSEAGG_RETURN_IF_ERROR(Flush());
    absl::StatusOr<Aggregate> result = Aggregate{};
    SPARSEAGG_RETURN_IF_ERROR(Guarded(spec_, [&] {
      Partial state = plan_->TakeState();
      plan_ = nullptr;
      AddTotals(state);
      result = LowerState(std::move(state), kernels_, parallel_);
    }));
    return result;
  }

 private:
  absl::Status Flush() {
    const absl::Status status = Guarded(spec_, [&] {
      if (!pending_.empty()) plan_->Fold(pending_);
    });
    pending_.clear();
    pending_values_ = 0;
    pending_bytes_ = 0;
    return status;
  }

  Partial State() {
    Partial state = plan_->State();
    AddTotals(state);
    return state;
  }

  void AddTotals(Partial& state) const {
    state.contributors = contributors_;
    state.total_weight = total_weight_;
  }

  const ReduceSpec spec_;
  const std::string name_;
  const std::string reason_;
  const CpuKernels& kernels_;
  Parallel& parallel_;
  std::unique_ptr<CpuPlan> plan_;
  uint64_t contributors_ = 0;
  uint64_t addends_ = 0;
  WideInteger total_weight_;
  std::vector<PendingUpdate> pending_;
  uint64_t pending_values_ = 0;
  uint64_t pending_bytes_ = 0;
};

uint64_t PhysicalMemoryBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page)
                               : uint64_t{1} << 32;
}

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const BackendOptions& options)
      : parallel_(options.threads != 0 ? options.threads
                                       : std::max(1u, std::thread::hardware_concurrency())) {
    info_.name = "cpu";
    info_.threads = parallel_.threads();
    info_.description = absl::StrCat(info_.threads, " threads, windowed 128-bit integers");
    info_.memory_bytes =
        options.memory_bytes != 0 ? options.memory_bytes : PhysicalMemoryBytes() / 2;
    info_.plans = {"dense", "sort"};
  }

  const BackendInfo& info() const override { return info_; }

  absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) override {
    const CpuKernels* kernels = WithValueType(plan.spec.layout.value_type, [&](auto tag) {
      return KernelsFor<typename decltype(tag)::type>(plan.spec.op);
    });
    if (kernels == nullptr) {
      return MakeError(absl::StatusCode::kInvalidArgument, "UNKNOWN_OPERATOR",
                       absl::StrCat("there is no operator \"", plan.spec.op, "\""));
    }
    std::unique_ptr<Aggregator> aggregator;
    SPARSEAGG_RETURN_IF_ERROR(Guarded(plan.spec, [&] {
      aggregator = std::make_unique<CpuAggregator>(plan, *kernels, parallel_);
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
