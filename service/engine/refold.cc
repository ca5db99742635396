#include "service/engine/refold.h"

#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/engine/manifest.h"
#include "service/engine/names.h"
#include "service/engine/stored.h"
#include "service/engine/update.h"
#include "service/store/store_errors.h"
#include "sparse/reference_backend.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

absl::Status FoldUpdate(const UpdateRecord& record, std::string_view headers_text,
                        std::string_view payload, const Limits& limits, Refolded& round) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto headers, ReadHeaders(headers_text));
  SPARSEAGG_ASSIGN_OR_RETURN(const UpdatePlan plan,
                             PlanUpdate(round.reducers->spec(), headers, limits));
  if (plan.payload_bytes != payload.size()) {
    return StoreCorrupt(absl::StrCat("an update has ", payload.size(), " bytes, its headers say ",
                                     plan.payload_bytes));
  }
  const CutPayload cut(headers, std::span(&payload, 1));
  const std::span<const EncodedTensor> tensors = cut.tensors();
  if (UpdateDigest(record.weight, tensors, plan.order) != record.digest) {
    return StoreCorrupt(absl::StrCat("the update of contributor ", Quoted(record.contributor),
                                     " is not the one that was accepted"));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const Reservation growth,
                             round.reducers->ReserveGrowth(headers, plan));
  SPARSEAGG_ASSIGN_OR_RETURN(StagedTensors staged,
                             round.reducers->Stage(tensors, plan, record.weight));
  for (size_t i = 0; i < staged.size(); ++i) {
    round.tensors[i].nnz_received += staged[i].entries.nnz;
  }
  round.updates.push_back(record);
  round.bytes_received += payload.size();
  return round.reducers->Accumulate(std::move(staged), record.weight);
}

absl::Status Mismatch(std::string_view what, const std::string& found,
                      const std::string& published) {
  return MakeError(absl::StatusCode::kDataLoss, "RESULT_MISMATCH",
                   absl::StrCat(std::string(what), " has digest ", absl::BytesToHexString(found),
                                ", the manifest says ", absl::BytesToHexString(published)));
}

// What was accepted once is taken, whatever the limits are today.
Limits NoLimits() {
  Limits limits;
  limits.update_bytes_max = std::numeric_limits<uint64_t>::max();
  limits.update_nnz_max = std::numeric_limits<uint64_t>::max();
  limits.result_nnz_max = std::numeric_limits<uint64_t>::max();
  return limits;
}

uint64_t ResultBytes(const PublishedResult& result) {
  uint64_t bytes = 0;
  for (const SparseTensor& tensor : result.tensors) {
    bytes += tensor.indices.size() * sizeof(uint64_t) + tensor.values.size();
  }
  return bytes;
}

}  // namespace

absl::StatusOr<Refolded> Refold(const UpdateStore& store, const std::string& round,
                                const RoundSpec& spec, const Limits& limits, Backend& backend,
                                Admission& aggregation) {
  Refolded refolded;
  SPARSEAGG_ASSIGN_OR_RETURN(
      refolded.reducers, TensorReducers::Make(spec, backend, aggregation, limits.result_nnz_max));
  refolded.tensors = refolded.reducers->Describe();
  SPARSEAGG_RETURN_IF_ERROR(store.ReadUpdates(
      round, [&](const UpdateRecord& update, std::string_view headers, std::string_view payload) {
        return FoldUpdate(update, headers, payload, limits, refolded);
      }));
  std::vector<PlanReport> reports = refolded.reducers->PlanReports();
  for (size_t i = 0; i < reports.size(); ++i) {
    refolded.tensors[i].reduction = std::move(reports[i]);
  }
  return refolded;
}

RoundSpec WithoutPlans(RoundSpec spec) {
  for (TensorSpec& tensor : spec.tensors) tensor.plan.clear();
  return spec;
}

absl::StatusOr<Verification> Verify(const UpdateStore& store, const std::string& round,
                                    const PublishedResult& published, Backend& backend,
                                    Admission& aggregation) {
  SPARSEAGG_RETURN_IF_ERROR(CheckResultDigest(published));
  SPARSEAGG_ASSIGN_OR_RETURN(Refolded refolded, Refold(store, round, WithoutPlans(published.spec),
                                                       NoLimits(), backend, aggregation));
  SPARSEAGG_ASSIGN_OR_RETURN(const PublishedResult again, refolded.reducers->Report());
  Verification verified;
  verified.bytes_read = refolded.bytes_received;
  verified.backend = backend.info().name;
  const Manifest manifest = DescribeResult(std::move(refolded.updates), again);
  verified.contributors = manifest.contributors;
  verified.updates_digest = manifest.updates_digest;
  verified.result_digest = manifest.result_digest;
  const Manifest& expected = published.manifest;
  if (verified.updates_digest != expected.updates_digest) {
    return Mismatch("the set of kept updates", verified.updates_digest, expected.updates_digest);
  }
  if (verified.result_digest != expected.result_digest) {
    return Mismatch("the result computed again", verified.result_digest, expected.result_digest);
  }
  return verified;
}

absl::StatusOr<Verification> VerifyPublished(const UpdateStore& store, const std::string& round,
                                             const PublishedResult& result,
                                             Admission& aggregation) {
  Reservation memory;
  PublishedResult stored;
  const PublishedResult* published = &result;
  if (result.spec.durability == Durability::kDurable) {
    // The bytes on the disk, not those that are kept for readers.
    SPARSEAGG_ASSIGN_OR_RETURN(memory, aggregation.Reserve(2 * ResultBytes(result), "the result"));
    SPARSEAGG_ASSIGN_OR_RETURN(const std::string bytes, store.ReadResult(round));
    stored.spec = result.spec;
    stored.manifest = result.manifest;
    SPARSEAGG_ASSIGN_OR_RETURN(stored.tensors, ReadResult(bytes, stored.spec));
    published = &stored;
  }
  SPARSEAGG_RETURN_IF_ERROR(CheckResultDigest(*published));
  if (!result.spec.keep_updates) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "UPDATES_NOT_KEPT",
                     "the stored result has the digest of its manifest; the updates were erased at "
                     "publication, so it cannot be computed again: set keep_updates_until_deleted");
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const auto reference, MakeReferenceBackend({}));
  return Verify(store, round, *published, *reference, aggregation);
}

absl::Status CheckResultDigest(const PublishedResult& published) {
  const std::string digest = ResultDigest(published);
  if (digest == published.manifest.result_digest) return absl::OkStatus();
  return Mismatch("the stored result", digest, published.manifest.result_digest);
}

}  // namespace sparseagg
