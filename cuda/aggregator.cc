#include "cuda/aggregator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <utility>

#include "base/status.h"

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

struct CudaAggregator::Work {
  Work(Gpu& gpu, const BackendInfo& info, const Plan& plan)
      : gpu(gpu),
        info(info),
        spec(plan.spec),
        adaptive(plan.adaptive),
        reduction(plan.spec, plan.name, gpu.context(), plan.window),
        report{.plan = plan.name, .reason = plan.reason} {}

  void Fold(Batch& batch) {
    Timed(batch, [&] { reduction.Fold(batch); });
  }
  void Finish(Batch& last, double total_weight, absl::StatusOr<Aggregate>& result) {
    Timed(last, [&] { result = reduction.Finish(last, total_weight); });
  }
  // What f makes of a batch, which may have no updates.
  template <class F>
  void Timed(const Batch& batch, const F& f) {
    const auto start = std::chrono::steady_clock::now();
    double predicted = 0;
    if (!batch.updates().empty()) {
      const Workload workload = WorkloadOf(batch);
      if (adaptive && !reduction.begun()) Choose(workload);
      predicted = info.cost(info, plan_report().plan, spec, workload).seconds;
    }
    f();
    Note(predicted, SecondsSince(start));
  }
  // By the first batch: all that came, or so much that merging it later costs little beside it.
  void Choose(const Workload& workload) {
    const absl::StatusOr<Plan> plan = MakePlan(spec, workload, info);
    reduction.UsePlan(plan->name);
    const std::lock_guard lock(report_mutex);
    report.plan = plan->name;
    report.reason = plan->reason;
  }
  void Note(double predicted_seconds, double seconds) {
    const std::lock_guard lock(report_mutex);
    report.predicted_seconds += predicted_seconds;
    report.seconds += seconds;
  }
  PlanReport plan_report() const {
    const std::lock_guard lock(report_mutex);
    return report;
  }

  Gpu& gpu;
  const BackendInfo info;
  const ReduceSpec spec;
  const bool adaptive;
  DeviceReduction reduction;
  std::atomic<uint64_t> state_bytes{0};
  mutable std::mutex report_mutex;
  PlanReport report;
};

CudaAggregator::CudaAggregator(Gpu& gpu, const BackendInfo& info, const Plan& plan)
    : gpu_(gpu),
      spec_(plan.spec),
      work_(std::make_shared<Work>(gpu, info, plan)),
      batch_(std::make_unique<Batch>(gpu.context().uploads, gpu.context().staging)) {}

CudaAggregator::~CudaAggregator() {
  FinishFold().IgnoreError();
  // The device may still read what has been uploaded.
  if (batch_->on_device()) {
    OnDevice([batch = std::shared_ptr<Batch>(std::move(batch_))](Work&) {
      batch->Take();
    }).IgnoreError();
  }
}

absl::StatusOr<StagedUpdate> CudaAggregator::Stage(uint64_t nnz) const {
  // Nobody can say how long a lost device takes to lock pages.
  if (!gpu_.device().health().ok()) return StageOnHeap(spec_.layout, nnz);
  cudaSetDevice(gpu_.device().ordinal());  // that locks the pages
  return gpu_.context().staging.Stage(spec_.layout, nnz);
}

absl::Status CudaAggregator::Accumulate(StagedUpdate update, float weight) {
  const uint64_t nnz = update.entries.nnz;
  SPARSEAGG_RETURN_IF_ERROR(failed_);
  SPARSEAGG_RETURN_IF_ERROR(CheckAddends(spec_, addends_, nnz));
  if (nnz > 0) {
    // A batch that is full waits for the one before it: what follows must not be counted then if
    // that one failed.
    if (batch_->bytes() >= gpu_.batch_bytes()) SPARSEAGG_RETURN_IF_ERROR(StartFold());
    batch_->Add({std::move(update), weight});
  }
  ++contributors_;
  addends_ += nnz;
  total_weight_.Add(weight);
  if (batch_->bytes_to_upload() >= gpu_.tuning().upload_bytes) {
    // The updates that do not fit now are uploaded when the batch is reduced.
    gpu_.device().Run(spec_.name, [&] { batch_->Upload(); }).IgnoreError();
  }
  return absl::OkStatus();
}

std::future<absl::Status> CudaAggregator::Post(std::function<void(Work&)> f) {
  return gpu_.thread().Post(DeviceThread::Task([work = work_, f = std::move(f)]() mutable {
    const absl::Status status = work->gpu.Run(work->spec.name, [&] { f(*work); });
    // What it owns may wait for the device, as only this thread does. The task itself ends with the
    // future, on the thread that looks at that.
    f = nullptr;
    work->state_bytes = work->reduction.device_bytes() + work->reduction.host_bytes();
    return status;
  }));
}

absl::Status CudaAggregator::OnDevice(std::function<void(Work&)> f) {
  failed_.Update(gpu_.Await(Post(std::move(f))));
  return failed_;
}

absl::Status CudaAggregator::StartFold() {
  SPARSEAGG_RETURN_IF_ERROR(FinishFold());
  if (batch_->updates().empty()) return absl::OkStatus();
  gpu_.device().Run(spec_.name, [&] { batch_->Upload(); }).IgnoreError();
  folding_bytes_ = batch_->bytes();
  fold_ = Post([batch = TakeBatch()](Work& work) { work.Fold(*batch); });
  return absl::OkStatus();
}

std::shared_ptr<Batch> CudaAggregator::TakeBatch() {
  return std::exchange(batch_,
                       std::make_unique<Batch>(gpu_.context().uploads, gpu_.context().staging));
}

absl::Status CudaAggregator::FinishFold() {
  if (fold_.valid()) failed_.Update(gpu_.Await(std::move(fold_)));
  folding_bytes_ = 0;
  return failed_;
}

absl::Status CudaAggregator::FoldAll() {
  SPARSEAGG_RETURN_IF_ERROR(StartFold());
  return FinishFold();
}

absl::Status CudaAggregator::Merge(const Partial& partial) {
  Partial own;
  own.spec = spec_;
  own.addends = addends_;
  SPARSEAGG_RETURN_IF_ERROR(CheckMergeable(own, partial));
  SPARSEAGG_RETURN_IF_ERROR(FinishFold());
  const auto copy = std::make_shared<Partial>(partial);
  SPARSEAGG_RETURN_IF_ERROR(
      OnDevice([copy](Work& work) { work.reduction.Join(std::move(*copy)); }));
  contributors_ += partial.contributors;
  addends_ += partial.addends;
  total_weight_.Add(partial.total_weight);
  return absl::OkStatus();
}

absl::Status CudaAggregator::Absorb(Aggregator& aggregator) {
  auto* const other = dynamic_cast<CudaAggregator*>(&aggregator);
  if (other == nullptr) return Aggregator::Absorb(aggregator);
  Partial own;
  own.spec = spec_;
  own.addends = addends_;
  Partial theirs;
  theirs.spec = other->spec_;
  theirs.addends = other->addends_;
  SPARSEAGG_RETURN_IF_ERROR(CheckMergeable(own, theirs));
  SPARSEAGG_RETURN_IF_ERROR(FinishFold());
  SPARSEAGG_RETURN_IF_ERROR(other->FoldAll());
  // Not OnDevice(): after an error both can go on, by way of the host.
  const auto shared = std::make_shared<SharedState>();
  SPARSEAGG_RETURN_IF_ERROR(
      other->gpu_.Await(other->Post([shared](Work& work) { *shared = work.reduction.Share(); })));
  // The task owns the state that it copies from: it may hang, and outlive the other aggregator.
  const absl::Status status = gpu_.Await(
      Post([shared, from = other->work_](Work& work) { work.reduction.JoinShared(*shared); }));
  // After other errors nobody knows how far it came.
  const std::string reason = ErrorReason(status);
  if (!status.ok() && reason != "GPU_OUT_OF_MEMORY" && reason != "GPU_REFUSED") {
    failed_.Update(status);
  }
  SPARSEAGG_RETURN_IF_ERROR(status);
  contributors_ += other->contributors_;
  addends_ += other->addends_;
  total_weight_.Add(other->total_weight_);
  return absl::OkStatus();
}

absl::StatusOr<Partial> CudaAggregator::Snapshot() {
  SPARSEAGG_RETURN_IF_ERROR(FoldAll());
  const auto state = std::make_shared<Partial>();
  SPARSEAGG_RETURN_IF_ERROR(OnDevice([state](Work& work) { *state = work.reduction.State(); }));
  state->spec = spec_;
  state->contributors = contributors_;
  state->total_weight = total_weight_;
  state->addends = addends_;
  return std::move(*state);
}

absl::StatusOr<Aggregate> CudaAggregator::Report() && {
  SPARSEAGG_RETURN_IF_ERROR(FinishFold());
  if (!batch_->updates().empty()) {
    gpu_.device().Run(spec_.name, [&] { batch_->Upload(); }).IgnoreError();
  }
  const auto result = std::make_shared<absl::StatusOr<Aggregate>>();
  const double total_weight = total_weight_.ToDouble();
  std::shared_ptr<Batch> last = TakeBatch();
  SPARSEAGG_RETURN_IF_ERROR(OnDevice([result, total_weight, last = std::move(last)](Work& work) {
    work.Finish(*last, total_weight, *result);
  }));
  return std::move(*result);
}

uint64_t CudaAggregator::memory_bytes() const {
  return batch_->bytes() + folding_bytes_ + work_->state_bytes.load();
}

PlanReport CudaAggregator::plan_report() const { return work_->plan_report(); }

}  // namespace sparseagg::gpu
