#include "cuda/aggregator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "sparse/status.h"

namespace sparseagg::gpu {
namespace {

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A batch, as a workload that is reduced at once.
Workload WorkloadOf(const Batch& batch) {
  Workload workload{.contributors = batch.updates().size(),
                    .nnz_per_update = batch.nnz() / batch.updates().size(),
                    .order = EntryOrder::kCanonical,
                    .at_once = true};
  for (const PendingUpdate& update : batch.updates()) {
    workload.order = std::min(workload.order, update.staged.order);
  }
  return workload;
}

}  // namespace

CudaAggregator::CudaAggregator(Gpu& gpu, const BackendInfo& info, const Tuning& tuning,
                               const Plan& plan)
    : gpu_(gpu),
      info_(info),
      tuning_(tuning),
      spec_(plan.spec),
      reduction_(plan.spec, plan.name, gpu.context),
      batch_(std::make_unique<Batch>(gpu.context.uploads)),
      report_{.plan = plan.name, .reason = plan.reason} {}

CudaAggregator::~CudaAggregator() { FinishFold().IgnoreError(); }

absl::StatusOr<StagedUpdate> CudaAggregator::Stage(uint64_t nnz) const {
  return gpu_.context.staging.Stage(spec_.layout, nnz);
}

uint64_t CudaAggregator::BatchBytes() const {
  const uint64_t most = gpu_.device.pool().budget_bytes() / tuning_.batch_share_of_memory;
  return std::min(most, std::max(tuning_.batch_bytes_min, state_bytes_.load()));
}

absl::Status CudaAggregator::Accumulate(StagedUpdate update, float weight) {
  const uint64_t nnz = update.entries.nnz;
  SPARSEAGG_RETURN_IF_ERROR(failed_);
  SPARSEAGG_RETURN_IF_ERROR(CheckAddends(spec_, addends_, nnz));
  if (nnz > 0) {
    // A batch that is full waits for the one before it: what follows must not be counted then if
    // that one failed.
    if (batch_->bytes() >= BatchBytes()) SPARSEAGG_RETURN_IF_ERROR(StartFold());
    batch_->Add({std::move(update), weight});
  }
  ++contributors_;
  addends_ += nnz;
  total_weight_.Add(weight);
  if (batch_->bytes_to_upload() >= tuning_.upload_bytes) {
    // What does not fit now is uploaded when the batch is reduced.
    gpu_.device.Run(spec_.name, [&] { batch_->Upload(); }).IgnoreError();
  }
  return absl::OkStatus();
}

absl::Status CudaAggregator::StartFold() {
  SPARSEAGG_RETURN_IF_ERROR(FinishFold());
  if (batch_->updates().empty()) return absl::OkStatus();
  gpu_.device.Run(spec_.name, [&] { batch_->Upload(); }).IgnoreError();
  folding_bytes_ = batch_->bytes();
  std::shared_ptr<Batch> batch =
      std::exchange(batch_, std::make_unique<Batch>(gpu_.context.uploads));
  fold_ = gpu_.thread.Post(DeviceThread::Task([this, batch] {
    const auto start = std::chrono::steady_clock::now();
    const Workload workload = WorkloadOf(*batch);
    const absl::Status status = gpu_.device.Run(spec_.name, [&] { reduction_.Fold(*batch); });
    state_bytes_ = reduction_.device_bytes() + reduction_.host_bytes();
    Note(info_.cost(info_, report_.plan, spec_, workload).seconds, SecondsSince(start));
    return status;
  }));
  return absl::OkStatus();
}

absl::Status CudaAggregator::FinishFold() {
  if (fold_.valid()) failed_.Update(fold_.get());
  folding_bytes_ = 0;
  return failed_;
}

absl::Status CudaAggregator::FoldAll() {
  SPARSEAGG_RETURN_IF_ERROR(StartFold());
  return FinishFold();
}

absl::Status CudaAggregator::OnDevice(std::function<void()> f) {
  failed_.Update(gpu_.thread
                     .Post(DeviceThread::Task([this, f = std::move(f)] {
                       const absl::Status status = gpu_.device.Run(spec_.name, f);
                       state_bytes_ = reduction_.device_bytes() + reduction_.host_bytes();
                       return status;
                     }))
                     .get());
  return failed_;
}

absl::Status CudaAggregator::Merge(const Partial& partial) {
  Partial own;
  own.spec = spec_;
  own.addends = addends_;
  SPARSEAGG_RETURN_IF_ERROR(CheckMergeable(own, partial));
  SPARSEAGG_RETURN_IF_ERROR(FinishFold());
  SPARSEAGG_RETURN_IF_ERROR(OnDevice([&] { reduction_.Join(partial); }));
  contributors_ += partial.contributors;
  addends_ += partial.addends;
  total_weight_.Add(partial.total_weight);
  return absl::OkStatus();
}

absl::StatusOr<Partial> CudaAggregator::Snapshot() {
  SPARSEAGG_RETURN_IF_ERROR(FoldAll());
  Partial state;
  SPARSEAGG_RETURN_IF_ERROR(OnDevice([&] { state = reduction_.State(); }));
  state.spec = spec_;
  state.contributors = contributors_;
  state.total_weight = total_weight_;
  state.addends = addends_;
  return state;
}

absl::StatusOr<Aggregate> CudaAggregator::Report() && {
  SPARSEAGG_RETURN_IF_ERROR(FoldAll());
  absl::StatusOr<Aggregate> result;
  SPARSEAGG_RETURN_IF_ERROR(OnDevice([&] {
    const auto start = std::chrono::steady_clock::now();
    result = reduction_.Finish(total_weight_.ToDouble());
    Note(0, SecondsSince(start));
  }));
  return result;
}

uint64_t CudaAggregator::memory_bytes() const {
  return batch_->bytes() + folding_bytes_ + state_bytes_.load();
}

PlanReport CudaAggregator::plan_report() const {
  const std::lock_guard lock(report_mutex_);
  return report_;
}

void CudaAggregator::Note(double predicted_seconds, double seconds) {
  const std::lock_guard lock(report_mutex_);
  report_.predicted_seconds += predicted_seconds;
  report_.seconds += seconds;
}

}  // namespace sparseagg::gpu
