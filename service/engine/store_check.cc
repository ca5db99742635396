#include "service/engine/store_check.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cgroup_limits.h"
#include "base/status.h"
#include "service/engine/memory/admission.h"
#include "service/engine/recovery/verify.h"
#include "service/engine/restore.h"
#include "service/engine/result/manifest.h"

namespace sparseagg {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// Restores the round as a server would, and fills in `check`. Returns the published result, or the
// result of the updates so far; null for an aborted round.
absl::StatusOr<std::shared_ptr<const PublishedResult>> RestoreRound(const RoundRecord& record,
                                                                    UpdateStore& store,
                                                                    Backend& backend,
                                                                    RoundCheck& check) {
  EngineOptions options;
  options.limits = WithoutLimits();
  Admission aggregation(kUnlimited, kAggregationBudget);
  const RoundRestorer restorer(options, backend, store, aggregation);
  SPARSEAGG_ASSIGN_OR_RETURN(Restored restored, restorer.Restore(record));
  RestoredRound& round = restored.round;
  check.state = round.snapshot.state;
  check.contributors = round.snapshot.contributors;
  check.bytes_received = round.snapshot.bytes_received;
  if (record.phase == RoundPhase::kAborted) return nullptr;
  if (round.snapshot.state == RoundState::kAborted) {
    return absl::DataLossError(round.snapshot.failure);
  }
  if (round.result != nullptr) {
    SPARSEAGG_RETURN_IF_ERROR(CheckResultDigest(*round.result));
    check.result_digest = round.result->manifest.result_digest;
    return round.result;
  }
  if (round.spec.publish_partial) {  // nothing is rounded, so there is nothing to compare
    SPARSEAGG_RETURN_IF_ERROR(round.reducers->Snapshot().status());
    return nullptr;
  }
  SPARSEAGG_ASSIGN_OR_RETURN(PublishedResult result, round.reducers->Report());
  check.result_digest = ResultDigest(result);
  return std::make_shared<const PublishedResult>(std::move(result));
}

absl::Status CheckRound(const RoundRecord& record, UpdateStore& store,
                        std::span<const std::unique_ptr<Backend>> backends, RoundCheck& check) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto result,
                             RestoreRound(record, store, *backends.front(), check));
  if (result == nullptr || record.phase == RoundPhase::kPublished) return absl::OkStatus();
  Admission aggregation(kUnlimited, kAggregationBudget);
  const VerifyOptions options{.memory_bytes = AvailableMemoryBytes() / 4};
  const bool published = record.phase == RoundPhase::kPublishedWithUpdates;
  for (const std::unique_ptr<Backend>& backend : backends) {
    if (!published && backend == backends.front()) continue;  // it has just computed that result
    const absl::Status compared =
        CompareWithUpdates(store, record.name, *result, *backend, aggregation, options).status();
    if (compared.ok()) continue;
    return MakeError(
        compared.code(), ErrorReason(compared),
        absl::StrCat("back end ", backend->info().name, ": ", std::string(compared.message())));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<RoundCheck> CheckStore(UpdateStore& store,
                                   std::span<const std::unique_ptr<Backend>> backends) {
  std::vector<RoundCheck> checks;
  for (const RoundRecord& record : store.Rounds()) {
    RoundCheck& check = checks.emplace_back();
    check.name = record.name;
    check.problem = std::string(CheckRound(record, store, backends, check).message());
  }
  return checks;
}

}  // namespace sparseagg
