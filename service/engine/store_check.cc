#include "service/engine/store_check.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/engine/admission.h"
#include "service/engine/manifest.h"
#include "service/engine/refold.h"
#include "service/engine/restore.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// What was accepted once is looked at, whatever the limits are today.
EngineOptions WithoutLimits() {
  EngineOptions options;
  options.limits.update_bytes_max = kUnlimited;
  options.limits.update_nnz_max = kUnlimited;
  options.limits.round_tensors_max = kUnlimited;
  options.limits.result_nnz_max = kUnlimited;
  return options;
}

// The digest of the round's result on this back end, and what the round looks like.
absl::StatusOr<std::string> Look(const RoundRecord& record, UpdateStore& store, Backend& backend,
                                 RoundCheck& check) {
  const EngineOptions options = WithoutLimits();
  Admission aggregation(kUnlimited, kAggregationBudget);
  const RoundRestorer restorer(options, backend, store, aggregation);
  SPARSEAGG_ASSIGN_OR_RETURN(Restored restored, restorer.Restore(record));
  RestoredRound& round = restored.round;
  check.state = round.books.state;
  check.contributors = round.books.contributors;
  check.bytes_received = round.books.bytes_received;
  if (record.phase == RoundPhase::kAborted) return std::string();
  if (round.books.state == RoundState::kAborted) return absl::DataLossError(round.books.failure);
  if (round.result != nullptr) {
    SPARSEAGG_RETURN_IF_ERROR(CheckResultDigest(*round.result));
    if (record.phase == RoundPhase::kPublishedWithUpdates) {
      SPARSEAGG_RETURN_IF_ERROR(
          Verify(store, record.name, *round.result, backend, aggregation).status());
    }
    return round.result->manifest.result_digest;
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const PublishedResult result, round.reducers->Report());
  return ResultDigest(result);
}

}  // namespace

std::vector<RoundCheck> CheckStore(UpdateStore& store,
                                   std::span<const std::unique_ptr<Backend>> backends) {
  std::vector<RoundCheck> checks;
  for (const RoundRecord& record : store.Rounds()) {
    RoundCheck& check = checks.emplace_back();
    check.name = record.name;
    for (const std::unique_ptr<Backend>& backend : backends) {
      const absl::StatusOr<std::string> digest = Look(record, store, *backend, check);
      if (!digest.ok()) {
        check.problem = std::string(digest.status().message());
        break;
      }
      if (backend != backends.front() && *digest != check.result_digest) {
        check.problem = absl::StrCat("back end ", backend->info().name,
                                     " gives another result than ", backends.front()->info().name);
        break;
      }
      check.result_digest = *digest;
    }
  }
  return checks;
}

}  // namespace sparseagg
