#include "service/engine/round/reduction.h"

#include <mutex>
#include <utility>

#include "base/status.h"
#include "service/engine/ingest/arriving_update.h"
#include "service/engine/ingest/update.h"
#include "service/engine/names.h"
#include "service/engine/result/held_result.h"
#include "service/engine/result/manifest.h"
#include "service/engine/upload/upload.h"
#include "sparse/validate.h"

namespace sparseagg {
namespace {

absl::Status CheckHeader(const UpdateHeader& header) {
  if (!header.contributor.empty()) {
    SPARSEAGG_RETURN_IF_ERROR(ValidateContributor(header.contributor));
  }
  if (!header.update_id.empty()) SPARSEAGG_RETURN_IF_ERROR(ValidateUpdateId(header.update_id));
  return ValidateWeight(header.weight);
}

// Shared with the uploads, which may outlive the reduction.
class ReductionState {
 public:
  ReductionState(std::unique_ptr<TensorReducers> reducers, const EngineOptions& options,
                 Admission& admission, std::shared_ptr<const void> budgets)
      : options_(options),
        admission_(admission),
        budgets_(std::move(budgets)),
        reducers_(std::move(reducers)) {}

  const EngineOptions& options() const { return options_; }
  Admission& admission() const { return admission_; }
  const RoundSpec& spec() const { return reducers_->spec(); }

  std::shared_ptr<const TensorReducers> reducers() const { return reducers_; }

  absl::StatusOr<Receipt> Add(const UpdateHeader& header, const UpdateBody& body,
                              Reservation& staging) {
    SPARSEAGG_RETURN_IF_ERROR(CheckHeader(header));
    const std::vector<EncodedHeader> headers = HeadersOf(body.tensors);
    SPARSEAGG_ASSIGN_OR_RETURN(const UpdateLayout layout,
                               MakeUpdateLayout(spec(), headers, options_.limits));
    if (body.arrived == nullptr) SPARSEAGG_RETURN_IF_ERROR(CheckPayloadSizes(body.tensors));
    SPARSEAGG_ASSIGN_OR_RETURN(const Reservation growth, reducers_->ReserveGrowth(headers, layout));
    if (staging.bytes() < layout.staged_bytes) {
      SPARSEAGG_ASSIGN_OR_RETURN(staging, admission_.Reserve(layout.staged_bytes));
    }
    StagedTensors staged;
    std::string digest;
    if (body.arrived != nullptr) {
      SPARSEAGG_ASSIGN_OR_RETURN(staged, body.arrived->Take());
      digest = QuickUpdateDigest(header.weight, body.tensors, body.arrived->sums(), layout.order);
    } else {
      SPARSEAGG_ASSIGN_OR_RETURN(staged, reducers_->Stage(body.tensors, layout, header.weight));
      digest = QuickUpdateDigest(header.weight, body.tensors, SumsOf(body.tensors), layout.order);
    }
    UpdateRecord record{.contributor = header.contributor,
                        .update_id = header.update_id,
                        .weight = header.weight,
                        .digest = std::move(digest)};

    std::lock_guard lock(mutex_);
    SPARSEAGG_RETURN_IF_ERROR(ended_);
    const absl::Status folded = reducers_->Accumulate(std::move(staged), header.weight);
    if (!folded.ok()) {
      ended_ = folded;  // some tensors may have the update, so there is no valid result
      return folded;
    }
    const Reservation released = std::move(staging);
    record.sequence = records_.size() + 1;
    records_.push_back(record);
    return Receipt{.contributor = record.contributor,
                   .update_id = record.update_id,
                   .sequence = record.sequence,
                   .digest = record.digest};
  }

  absl::StatusOr<std::shared_ptr<const PublishedResult>> Report() {
    std::lock_guard lock(mutex_);
    SPARSEAGG_RETURN_IF_ERROR(ended_);
    ended_ = MakeError(absl::StatusCode::kFailedPrecondition, "REDUCTION_ENDED",
                       "the result was reported; start a new reduction");
    absl::StatusOr<PublishedResult> report = reducers_->Report();
    if (!report.ok()) {
      ended_ = report.status();
      return ended_;
    }
    auto result = std::make_shared<PublishedResult>(*std::move(report));
    for (const PlanReport& plan : reducers_->PlanReports()) {
      options_.observer->OnReduction({.backend = reducers_->backend(),
                                      .plan = plan.plan,
                                      .seconds = plan.seconds,
                                      .predicted_seconds = plan.predicted_seconds});
    }
    Manifest manifest = DescribeResult(std::exchange(records_, {}), *result);
    manifest.infinite_values = result->manifest.infinite_values;
    manifest.publish_time = options_.now();
    result->manifest = std::move(manifest);
    return HoldMemory(std::move(result), reducers_->TakeMemory(), budgets_);
  }

 private:
  const EngineOptions& options_;
  Admission& admission_;
  const std::shared_ptr<const void> budgets_;
  const std::shared_ptr<TensorReducers> reducers_;
  std::mutex mutex_;
  std::vector<UpdateRecord> records_;
  absl::Status ended_;  // OK: takes updates
};

class ReductionImpl : public StatelessReduction {
 public:
  explicit ReductionImpl(std::shared_ptr<ReductionState> state) : state_(std::move(state)) {}

  absl::Status Add(const UpdateHeader& header, const std::vector<EncodedTensor>& tensors) override {
    Reservation staging;
    return state_->Add(header, {.tensors = tensors}, staging).status();
  }

  absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(const UpdateHeader& header,
                                                      std::vector<EncodedHeader> tensors) override {
    SPARSEAGG_RETURN_IF_ERROR(CheckHeader(header));
    SPARSEAGG_ASSIGN_OR_RETURN(const UpdateLayout layout,
                               MakeUpdateLayout(state_->spec(), tensors, state_->options().limits));
    UploadArgs args;
    args.staged_bytes = layout.staged_bytes;
    args.header = header;
    args.tensors = std::move(tensors);
    args.total_bytes = layout.payload_bytes;
    args.stage = [state = state_, layout,
                  weight = header.weight](std::span<const EncodedHeader> headers) {
      return ArrivingUpdate::Make(state->reducers(), headers, layout, weight);
    };
    args.commit = [state = state_](const UpdateHeader& h, const UpdateBody& body,
                                   Reservation& staging) { return state->Add(h, body, staging); };
    args.now = state_->options().steady_now;
    SPARSEAGG_RETURN_IF_ERROR(AnnounceUpload(state_->admission(), args));
    SPARSEAGG_ASSIGN_OR_RETURN(const auto upload, ChunkedUpload::Make(std::move(args)));
    return upload->NewWriter();
  }

  absl::StatusOr<std::shared_ptr<const PublishedResult>> Report() override {
    return state_->Report();
  }

 private:
  const std::shared_ptr<ReductionState> state_;
};

}  // namespace

std::unique_ptr<StatelessReduction> MakeReduction(std::unique_ptr<TensorReducers> reducers,
                                                  const EngineOptions& options,
                                                  Admission& admission,
                                                  std::shared_ptr<const void> budgets) {
  return std::make_unique<ReductionImpl>(std::make_shared<ReductionState>(
      std::move(reducers), options, admission, std::move(budgets)));
}

}  // namespace sparseagg
