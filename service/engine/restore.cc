#include "service/engine/restore.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/engine/names.h"
#include "service/engine/round_spec.h"
#include "service/engine/stored.h"
#include "service/engine/update.h"
#include "service/store/store_errors.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

RoundState StateOf(RoundPhase phase) {
  switch (phase) {
    case RoundPhase::kOpen:
      return RoundState::kOpen;
    case RoundPhase::kClosed:
      return RoundState::kSealed;
    case RoundPhase::kPublished:
      return RoundState::kPublished;
    case RoundPhase::kAborted:
      return RoundState::kAborted;
  }
  return RoundState::kAborted;
}

// As many changes as lead here: a watcher that waits for a later one is not answered twice.
uint64_t RevisionOf(const RoundSnapshot& books) {
  return 1 + books.contributors + (books.seal_time ? 1 : 0) + (books.publish_time ? 1 : 0);
}

}  // namespace

absl::StatusOr<Restored> RoundRestorer::Restore(const RoundRecord& record) const {
  Restored restored;
  absl::Status status =
      record.damage.empty() ? RestoreInto(record, restored) : StoreCorrupt(record.damage);
  if (status.ok()) return restored;
  if (!absl::IsDataLoss(status)) {
    return MakeError(
        status.code(), ErrorReason(status),
        absl::StrCat("round \"", record.name,
                     "\" of the data directory cannot be taken up: ", status.message()));
  }
  // Nothing is erased: what is left of the data may be worth a look before DeleteRound().
  restored.round.reducers.reset();
  restored.round.result.reset();
  restored.round.result_memory = {};
  restored.round.books.state = RoundState::kAborted;
  restored.round.books.failure = absl::StrCat("DATA_LOSS: ", std::string(status.message()));
  return restored;
}

absl::Status RoundRestorer::RestoreInto(const RoundRecord& record, Restored& restored) const {
  SPARSEAGG_ASSIGN_OR_RETURN(RoundDescription description, ReadDescription(record.description));
  restored.args = std::move(description.args);
  RestoredRound& round = restored.round;
  round.spec = restored.args.spec;
  round.books.state = StateOf(record.phase);
  round.books.create_time = description.create_time;
  if (!record.details.empty()) SPARSEAGG_RETURN_IF_ERROR(ReadDetails(record.details, round.books));
  if (record.phase == RoundPhase::kOpen || record.phase == RoundPhase::kClosed) {
    const uint64_t sealed = round.books.contributors;
    SPARSEAGG_RETURN_IF_ERROR(FoldUpdates(record, round));
    if (record.phase == RoundPhase::kClosed && round.books.contributors != sealed) {
      return StoreCorrupt(
          absl::StrCat(sealed, " updates were sealed, ", round.books.contributors, " are there"));
    }
  }
  if (record.phase == RoundPhase::kPublished) SPARSEAGG_RETURN_IF_ERROR(LoadResult(record, round));
  round.books.revision = RevisionOf(round.books);
  return absl::OkStatus();
}

absl::Status RoundRestorer::FoldUpdates(const RoundRecord& record, RestoredRound& round) const {
  SPARSEAGG_ASSIGN_OR_RETURN(round.reducers,
                             TensorReducers::Make(round.spec, backend_, aggregation_));
  round.books.tensors = round.reducers->Describe();
  round.books.contributors = 0;
  round.books.bytes_received = 0;
  SPARSEAGG_RETURN_IF_ERROR(store_.ReadUpdates(
      record.name,
      [&](const UpdateRecord& update, std::string_view headers, std::string_view payload) {
        return FoldUpdate(update, headers, payload, round);
      }));
  std::vector<PlanReport> reports = round.reducers->PlanReports();
  for (size_t i = 0; i < reports.size(); ++i) {
    round.books.tensors[i].reduction = std::move(reports[i]);
  }
  return absl::OkStatus();
}

absl::Status RoundRestorer::FoldUpdate(const UpdateRecord& record, std::string_view headers_text,
                                       std::string_view payload, RestoredRound& round) const {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto headers, ReadHeaders(headers_text));
  SPARSEAGG_ASSIGN_OR_RETURN(const UpdatePlan plan,
                             PlanUpdate(round.spec, headers, options_.limits));
  if (plan.payload_bytes != payload.size()) {
    return StoreCorrupt(absl::StrCat("an update has ", payload.size(), " bytes, its headers say ",
                                     plan.payload_bytes));
  }
  std::vector<std::string_view> pieces;
  const std::vector<EncodedTensor> tensors = CutPayload(headers, payload, pieces);
  if (UpdateDigest(record.weight, tensors, plan.order) != record.digest) {
    return StoreCorrupt(absl::StrCat("the update of contributor ", Quoted(record.contributor),
                                     " is not the one that was accepted"));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const Reservation growth,
                             round.reducers->ReserveGrowth(headers, plan));
  SPARSEAGG_ASSIGN_OR_RETURN(StagedTensors staged,
                             round.reducers->Stage(tensors, plan, record.weight));
  for (size_t i = 0; i < staged.size(); ++i) {
    round.books.tensors[i].nnz_received += staged[i].entries.nnz;
  }
  ++round.books.contributors;
  round.books.bytes_received += payload.size();
  return round.reducers->Accumulate(std::move(staged), record.weight);
}

absl::Status RoundRestorer::LoadResult(const RoundRecord& record, RestoredRound& round) const {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::string bytes, store_.ReadResult(record.name));
  if (!round.books.manifest) return StoreCorrupt("the manifest is missing");
  PublishedResult result;
  SPARSEAGG_ASSIGN_OR_RETURN(result.tensors, ReadResult(bytes, round.spec));
  SPARSEAGG_ASSIGN_OR_RETURN(round.result_memory, aggregation_.Reserve(bytes.size(), "the result"));
  result.spec = round.spec;
  for (const TensorSpec& spec : round.spec.tensors) {
    result.result_specs.push_back(ResultSpec(spec));
  }
  result.manifest = *round.books.manifest;
  round.result = std::make_shared<const PublishedResult>(std::move(result));
  return absl::OkStatus();
}

}  // namespace sparseagg
