#include "service/engine/recovery/refold.h"

#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/ingest/update.h"
#include "service/engine/names.h"
#include "service/engine/partial/partial_body.h"
#include "service/engine/recovery/stored.h"
#include "service/engine/result/manifest.h"
#include "service/store/store_errors.h"
#include "sparse/reference_backend.h"

namespace sparseagg {
namespace {

absl::Status MergeKept(const UpdateRecord& record, const KeptUpdate& kept, Refolded& round) {
  SPARSEAGG_ASSIGN_OR_RETURN(RoundPartial partial, ReadKeptPartial(kept, round.reducers->spec()));
  for (size_t i = 0; i < round.tensors.size(); ++i) {
    round.tensors[i].nnz_received += partial.entries[i];
  }
  round.covered.Add(record.contributor, std::move(partial.covered));
  return round.reducers->Merge(std::move(partial));
}

absl::Status FoldUpdate(const UpdateRecord& record, std::string_view headers_text,
                        std::string_view payload, const Limits& limits, Refolded& round) {
  SPARSEAGG_ASSIGN_OR_RETURN(const KeptUpdate kept, ReadKeptUpdate(record, headers_text, payload,
                                                                   round.reducers->spec(), limits));
  round.updates.push_back(record);
  round.bytes_received += payload.size();
  if (IsPartialBody(kept.headers)) return MergeKept(record, kept, round);
  SPARSEAGG_ASSIGN_OR_RETURN(
      StagedTensors staged,
      round.reducers->Stage(kept.payload.tensors(), kept.layout, record.weight));
  for (size_t i = 0; i < staged.size(); ++i) {
    round.tensors[i].nnz_received += kept.headers[kept.layout.order[i]].nnz;
  }
  return round.reducers->Accumulate(std::move(staged), record.weight);
}

// Makes the reducers of a round that was accepted before. Its memory is recorded even beyond the
// limit. Ignores a forced plan that belongs to another back end, or to one with more memory.
absl::StatusOr<std::unique_ptr<TensorReducers>> MakeReducers(const RoundSpec& spec,
                                                             const Limits& limits, Backend& backend,
                                                             Admission& aggregation) {
  const auto make = [&](const RoundSpec& as) {
    return TensorReducers::Make(
        as, backend, aggregation,
        {.result_nnz_max = limits.result_nnz_max, .budget = TensorReducers::Budget::kRecordOnly});
  };
  auto reducers = make(spec);
  const std::string reason = ErrorReason(reducers.status());
  if (reason != "UNKNOWN_PLAN" && reason != "PLAN_TOO_LARGE") return reducers;
  return make(WithoutPlans(spec));
}

}  // namespace

RoundSpec WithoutPlans(RoundSpec spec) {
  for (TensorSpec& tensor : spec.tensors) tensor.plan.clear();
  return spec;
}

absl::StatusOr<KeptUpdate> ReadKeptUpdate(const UpdateRecord& record, std::string_view headers_text,
                                          std::string_view payload, const RoundSpec& spec,
                                          const Limits& limits) {
  SPARSEAGG_ASSIGN_OR_RETURN(std::vector<EncodedHeader> headers, ReadHeaders(headers_text));
  SPARSEAGG_ASSIGN_OR_RETURN(UpdateLayout layout, MakeBodyLayout(spec, headers, limits));
  if (layout.payload_bytes != payload.size()) {
    return StoreCorrupt(absl::StrCat("a stored update has ", payload.size(),
                                     " bytes, but its headers state ", layout.payload_bytes));
  }
  SplitPayload cut(headers, std::span(&payload, 1));
  if (UpdateDigest(record.weight, cut.tensors(), layout.order) != record.digest) {
    return StoreCorrupt(absl::StrCat("the update of contributor ", Quoted(record.contributor),
                                     " is not the one that was accepted"));
  }
  return KeptUpdate{std::move(headers), std::move(layout), std::move(cut)};
}

absl::StatusOr<RoundPartial> ReadKeptPartial(const KeptUpdate& update, const RoundSpec& spec) {
  const ByteChain values = update.payload.tensors().front().values;
  return ReadPartial(values.empty() ? std::string_view() : values.front(), {.specs = spec.tensors});
}

absl::StatusOr<Refolded> Refold(const UpdateStore& store, const std::string& round,
                                const RoundSpec& spec, const Limits& limits, Backend& backend,
                                Admission& aggregation) {
  Refolded refolded;
  SPARSEAGG_ASSIGN_OR_RETURN(refolded.reducers, MakeReducers(spec, limits, backend, aggregation));
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

}  // namespace sparseagg
