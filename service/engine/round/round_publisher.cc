#include "service/engine/round/round_publisher.h"

#include <utility>

#include "base/status.h"
#include "service/engine/recovery/stored.h"
#include "service/engine/recovery/verify.h"
#include "service/engine/result/manifest.h"
#include "service/engine/round/round.h"

namespace sparseagg {
namespace {

constexpr std::chrono::minutes kStallReportInterval{1};

// A leaf of a version that does not know owners sends all rows.
absl::Status CheckRows(const PublishedResult& result) {
  const RoundTree& tree = result.spec.tree;
  if (!tree.is_divided() && !tree.part.has_value()) return absl::OkStatus();
  const RowRange rows = tree.part.has_value() ? tree.part->rows : kNoRows;
  for (size_t i = 0; i < result.tensors.size(); ++i) {
    const SparseTensor& tensor = result.tensors[i];
    const auto [first, end] = RowsOf(rows, i, tensor.layout.num_rows);
    if (tensor.nnz() == 0) continue;
    if (tensor.indices[0] >= first && tensor.indices[tensor.nnz() - 1] < end) continue;
    return MakeError(absl::StatusCode::kInternal, "OWNER_FAILED",
                     "OWNER_FAILED: a leaf has sent other rows than it was asked for; are all "
                     "servers of the tree of the same version?");
  }
  return absl::OkStatus();
}

// Adds what the owners have to the manifest of a root, whose own result has no rows.
absl::Status AddDivided(const DividedResult& divided, Manifest& manifest) {
  if (divided.updates_digest != manifest.updates_digest) {
    return MakeError(absl::StatusCode::kInternal, "OWNER_FAILED",
                     "OWNER_FAILED: the owners have other updates than the root has counted; the "
                     "round has no result");
  }
  manifest.parts = divided.parts;
  manifest.infinite_values = divided.infinite_values;
  manifest.result_digest = divided.result_digest;
  return absl::OkStatus();
}

}  // namespace

void RoundPublisher::Publish(TensorReducers& reducers, std::vector<UpdateRecord> closed) {
  SortForManifest(closed);
  const bool publish_partial = round_.spec().publish_partial;
  absl::StatusOr<PublishedResult> report =
      publish_partial ? reducers.ReportPartial(closed) : reducers.Report();
  if (!report.ok()) return round_.Fail(report.status());
  auto result = std::make_shared<PublishedResult>(*std::move(report));
  if (const absl::Status rows = CheckRows(*result); !rows.ok()) return round_.Fail(rows);
  Manifest manifest = DescribeResult(std::move(closed), *result);
  manifest.infinite_values = result->manifest.infinite_values;
  if (const auto divided = round_.Snapshot().divided; divided.has_value()) {
    const absl::Status added = AddDivided(*divided, manifest);
    if (!added.ok()) return round_.Fail(added);
  }
  manifest.given_up_leaves = GivenUpLeaves(round_.spec().tree, [this](const std::string& sender) {
    return services_.store.Find(round_.name(), sender);
  });
  manifest.publish_time = services_.options.now();
  const RoundSnapshot published =
      round_.RecordResult(*result, reducers.PlanReports(), std::move(manifest));
  result->manifest = *published.manifest;
  const absl::Status checked = SpotCheck(*result);
  if (!checked.ok()) return round_.Fail(checked);
  StoreResult(std::move(result), published);
}

absl::Status RoundPublisher::SpotCheck(const PublishedResult& result) {
  if (round_.spec().durability != Durability::kDurable || round_.spec().publish_partial ||
      !IsSampled(services_.options.verify_share, round_.name(), round_.create_time())) {
    return absl::OkStatus();
  }
  const auto start = std::chrono::steady_clock::now();
  const absl::Status outcome = VerifyUnpublished(
      services_.store, round_.name(), result, services_.aggregation,
      [this] { return services_.draining.load() || round_.state() != RoundState::kSealed; });
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  services_.options.observer->OnVerification({round_.Snapshot(), outcome, taken.count()});
  return ErrorReason(outcome) == kResultMismatch ? outcome : absl::OkStatus();
}

void RoundPublisher::StoreResult(std::shared_ptr<PublishedResult> result,
                                 const RoundSnapshot& published) {
  if (!round_.BeginStoringResult()) return;  // aborted concurrently
  // The gate is open while the result is stored, because that may take minutes and a submission
  // must not wait for it.
  std::vector<uint64_t> sizes;
  const absl::Status stored =
      services_.store.PublishRound(round_.name(), WriteDetails(published),
                                   ResultPieces(*result, sizes), round_.spec().keep_updates);
  round_.EndStoringResult(stored, published, result);
  if (RetryAfterMs(stored) > 0) {
    round_.RecordStall(stored);
    ReportStall(stored);
    auto retry = [this, owner = round_.shared_from_this(), result = std::move(result), published] {
      StoreResult(result, published);
    };
    return services_.executor.PostAfter(
        std::chrono::milliseconds(RetryAfterMs(stored)),
        [this, retry = std::move(retry)]() mutable { strand_.Post(std::move(retry)); });
  }
  if (!stored.ok()) return round_.Fail(stored);
  round_.NotifyState();
  if (!round_.spec().keep_updates) ScheduleErasure();
}

void RoundPublisher::ScheduleErasure() {
  if (round_.spec().durability != Durability::kDurable) return;
  services_.eraser.Post([this, owner = round_.shared_from_this()] { ErasePayloads(); });
}

void RoundPublisher::ErasePayloads() {
  if (round_.deleted()) return;  // its data is erased, and the name may belong to another round
  const absl::Status erased = services_.store.ErasePayloads(round_.name());
  if (erased.ok() || absl::IsCancelled(erased)) return;
  if (RetryAfterMs(erased) == 0) return round_.RecordFailedErasure(erased);
  ReportStall(erased);
  services_.eraser.PostAfter(std::chrono::milliseconds(RetryAfterMs(erased)),
                             [this, owner = round_.shared_from_this()] { ErasePayloads(); });
}

void RoundPublisher::ReportStall(const absl::Status& refusal) {
  const auto now = services_.options.steady_now();
  {
    std::lock_guard lock(mutex_);
    if (now < next_stall_report_) return;
    next_stall_report_ = now + kStallReportInterval;
  }
  services_.options.observer->OnRoundStalled(round_.Snapshot(), refusal);
}

}  // namespace sparseagg
