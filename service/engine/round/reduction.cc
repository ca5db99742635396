#include "service/engine/round/reduction.h"

#include <mutex>
#include <utility>

#include "base/status.h"
#include "service/engine/ingest/arriving_update.h"
#include "service/engine/ingest/update.h"
#include "service/engine/names.h"
#include "service/engine/result/held_result.h"
#include "service/engine/result/manifest.h"
#include "service/engine/round/round_spec.h"
#include "service/engine/upload/upload.h"
#include "sparse/validate.h"
#include "sparse/wide_integer.h"

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
  ReductionState(std::unique_ptr<TensorReducers> reducers, const ReductionServices& services)
      : options_(services.options),
        staging_(services.staging),
        budgets_(services.budgets),
        has_digests_(services.has_digests),
        reducers_(std::move(reducers)) {}

  const EngineOptions& options() const { return options_; }
  Admission& staging() const { return staging_; }
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
      SPARSEAGG_ASSIGN_OR_RETURN(staging, staging_.Reserve(layout.staged_bytes));
    }
    StagedTensors staged;
    if (body.arrived != nullptr) {
      SPARSEAGG_ASSIGN_OR_RETURN(staged, body.arrived->Take());
    } else {
      SPARSEAGG_ASSIGN_OR_RETURN(staged, reducers_->Stage(body.tensors, layout, header.weight));
    }
    UpdateRecord record{.contributor = header.contributor,
                        .update_id = header.update_id,
                        .weight = header.weight,
                        .digest = DigestOf(header, body, layout)};

    std::lock_guard lock(mutex_);
    SPARSEAGG_RETURN_IF_ERROR(ended_);
    const absl::Status folded = reducers_->Accumulate(std::move(staged), header.weight);
    if (!folded.ok()) {
      ended_ = folded;  // some tensors may have the update, so there is no valid result
      return folded;
    }
    const Reservation released = std::move(staging);
    total_weight_.Add(double{header.weight});
    record.sequence = ++contributors_;
    if (has_digests_) records_.push_back(record);
    return Receipt{.contributor = record.contributor,
                   .update_id = record.update_id,
                   .sequence = record.sequence,
                   .digest = record.digest};
  }

  absl::StatusOr<RoundPartial> Snapshot() {
    std::lock_guard lock(mutex_);
    SPARSEAGG_RETURN_IF_ERROR(ended_);
    return reducers_->Snapshot();
  }

  absl::Status Merge(const RoundPartial& partial) {
    std::lock_guard lock(mutex_);
    SPARSEAGG_RETURN_IF_ERROR(ended_);
    SPARSEAGG_ASSIGN_OR_RETURN(const Reservation growth, reducers_->ReserveMerge(partial));
    SPARSEAGG_RETURN_IF_ERROR(reducers_->CheckMerge(partial));
    const absl::Status merged = reducers_->Merge(partial);
    if (!merged.ok()) {
      ended_ = merged;  // some tensors may have it, so there is no valid result
      return merged;
    }
    // Each tensor has counted the same updates.
    contributors_ += partial.tensors.front().contributors;
    total_weight_.Add(partial.tensors.front().total_weight);
    has_merged_ = true;
    return absl::OkStatus();
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
    Manifest manifest;
    if (has_digests_ && !has_merged_) {
      manifest = DescribeResult(std::exchange(records_, {}), *result);
    }
    manifest.contributors = contributors_;
    manifest.total_weight = total_weight_.ToDouble();
    manifest.infinite_values = result->manifest.infinite_values;
    manifest.publish_time = options_.now();
    result->manifest = std::move(manifest);
    return HoldMemory(std::move(result), reducers_->TakeMemory(), budgets_);
  }

 private:
  // Empty where no digests are computed, for which every byte is read once more.
  std::string DigestOf(const UpdateHeader& header, const UpdateBody& body,
                       const UpdateLayout& layout) const {
    if (!has_digests_) return {};
    if (body.arrived != nullptr) {
      return QuickUpdateDigest(header.weight, body.tensors, body.arrived->sums(), layout.order);
    }
    return QuickUpdateDigest(header.weight, body.tensors, SumsOf(body.tensors), layout.order);
  }

  const EngineOptions& options_;
  Admission& staging_;
  const std::shared_ptr<const void> budgets_;
  const bool has_digests_;
  const std::shared_ptr<TensorReducers> reducers_;
  std::mutex mutex_;
  uint64_t contributors_ = 0;
  WideInteger total_weight_;
  bool has_merged_ = false;
  std::vector<UpdateRecord> records_;  // for the digests
  absl::Status ended_;                 // OK: takes updates
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
    SPARSEAGG_RETURN_IF_ERROR(AnnounceUpload(state_->staging(), args));
    SPARSEAGG_ASSIGN_OR_RETURN(const auto upload, ChunkedUpload::Make(std::move(args)));
    return upload->NewWriter();
  }

  absl::StatusOr<RoundPartial> Snapshot() override { return state_->Snapshot(); }
  absl::Status Merge(const RoundPartial& partial) override { return state_->Merge(partial); }

  absl::StatusOr<std::shared_ptr<const PublishedResult>> Report() override {
    return state_->Report();
  }

 private:
  const std::shared_ptr<ReductionState> state_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<StatelessReduction>> MakeReduction(
    const RoundSpec& spec, const ReductionServices& services) {
  if (spec.publish_partial) {
    return MakeError(absl::StatusCode::kInvalidArgument, "PARTIAL_NOT_ALLOWED",
                     "only a round can publish its partial aggregate; leave publish_partial out");
  }
  RoundSpec stateless = spec;
  stateless.durability = Durability{};  // nothing is stored
  SPARSEAGG_ASSIGN_OR_RETURN(stateless,
                             NormaliseRoundSpec(stateless, services.options, services.store));
  SPARSEAGG_ASSIGN_OR_RETURN(
      auto reducers, TensorReducers::Make(stateless, services.backend, services.aggregation,
                                          {.result_nnz_max = services.options.limits.result_nnz_max,
                                           .folding = services.folding}));
  return std::make_unique<ReductionImpl>(
      std::make_shared<ReductionState>(std::move(reducers), services));
}

}  // namespace sparseagg
