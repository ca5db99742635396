#include "service/engine/restore.h"

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/recovery/refold.h"
#include "service/engine/recovery/stored.h"
#include "service/engine/round/round_spec.h"
#include "service/store/store_errors.h"

namespace sparseagg {
namespace {

RoundState StateOf(RoundPhase phase) {
  switch (phase) {
    case RoundPhase::kOpen:
      return RoundState::kOpen;
    case RoundPhase::kClosed:
      return RoundState::kSealed;
    case RoundPhase::kPublished:
    case RoundPhase::kPublishedWithUpdates:
      return RoundState::kPublished;
    case RoundPhase::kAborted:
    case RoundPhase::kDeleted:  // the store does not return deleted rounds
      return RoundState::kAborted;
  }
  return RoundState::kAborted;
}

// Returns the number of changes that led to this state, so that a watcher that waits for a later
// revision is not called twice for the same one.
uint64_t RevisionOf(const RoundSnapshot& snapshot) {
  return 1 + snapshot.contributors + (snapshot.seal_time ? 1 : 0) +
         (snapshot.publish_time ? 1 : 0) + (snapshot.abort_time ? 1 : 0);
}

}  // namespace

absl::Status RestoreError(const RoundRecord& record, const absl::Status& why) {
  return MakeError(why.code(), ErrorReason(why),
                   absl::StrCat("round \"", record.name,
                                "\" of the data directory cannot be restored: ", why.message()));
}

absl::StatusOr<Restored> RoundRestorer::Restore(const RoundRecord& record) const {
  Restored restored;
  absl::Status status;
  try {
    status = record.damage.empty() ? RestoreInto(record, restored) : StoreCorrupt(record.damage);
  } catch (const std::bad_alloc&) {
    status = MakeError(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY",
                       absl::StrCat("no memory to restore round \"", record.name, "\""));
  }
  if (status.ok()) return restored;
  const bool scarce = absl::IsResourceExhausted(status);
  if (!scarce && !absl::IsDataLoss(status)) return RestoreError(record, status);
  // Nothing is erased: an operator may examine the data before DeleteRound(). The retention starts
  // now.
  RestoredRound& round = restored.round;
  round.reducers.reset();
  round.result.reset();
  round.result_memory = {};
  round.spec.durability = record.durability;
  round.snapshot.state = RoundState::kAborted;
  round.snapshot.abort_time = options_.now();
  // The description cannot be read.
  if (round.snapshot.create_time.time_since_epoch().count() == 0) {
    round.snapshot.create_time = *round.snapshot.abort_time;
  }
  round.snapshot.failure =
      scarce ? absl::StrCat(std::string(status.message()),
                            "; its updates are kept: the next start of the server restores the "
                            "round, DeleteRound deletes it")
             : absl::StrCat("DATA_LOSS: ", std::string(status.message()));
  round.snapshot.may_be_restored = scarce;
  round.snapshot.may_open_again = scarce && record.phase == RoundPhase::kOpen;
  round.snapshot.revision = RevisionOf(round.snapshot);
  return restored;
}

absl::Status RoundRestorer::RestoreInto(const RoundRecord& record, Restored& restored) const {
  SPARSEAGG_ASSIGN_OR_RETURN(RoundDescription description, ReadDescription(record.description));
  restored.args = std::move(description.args);
  RestoredRound& round = restored.round;
  round.spec = restored.args.spec;
  round.snapshot.state = StateOf(record.phase);
  round.snapshot.create_time = description.create_time;
  if (record.phase == RoundPhase::kOpen) {
    SPARSEAGG_RETURN_IF_ERROR(RestoreClock(record, round));
  } else if (!record.details.empty()) {
    SPARSEAGG_RETURN_IF_ERROR(ReadDetails(record.details, round.snapshot));
  }
  if (record.phase == RoundPhase::kOpen || record.phase == RoundPhase::kClosed) {
    const uint64_t sealed = round.snapshot.contributors;
    SPARSEAGG_RETURN_IF_ERROR(FoldUpdates(record, round));
    if (record.phase == RoundPhase::kClosed && round.snapshot.contributors != sealed) {
      return StoreCorrupt(absl::StrCat(sealed, " updates were sealed, but ",
                                       round.snapshot.contributors, " are stored"));
    }
  }
  if (IsPublished(record.phase)) SPARSEAGG_RETURN_IF_ERROR(LoadResult(record, round));
  round.snapshot.revision = RevisionOf(round.snapshot);
  return absl::OkStatus();
}

absl::Status RoundRestorer::RestoreClock(const RoundRecord& record, RestoredRound& round) const {
  if (record.details.empty()) return absl::OkStatus();  // written by a version without policies
  SPARSEAGG_ASSIGN_OR_RETURN(const RoundAnchor anchor, ReadAnchor(record.details));
  round.clock = RoundClock(anchor, {options_.now(), options_.steady_now()});
  return absl::OkStatus();
}

absl::Status RoundRestorer::FoldUpdates(const RoundRecord& record, RestoredRound& round) const {
  SPARSEAGG_ASSIGN_OR_RETURN(Refolded refolded, Refold(store_, record.name, round.spec,
                                                       options_.limits, backend_, aggregation_));
  round.reducers = std::move(refolded.reducers);
  round.snapshot.tensors = std::move(refolded.tensors);
  round.snapshot.contributors =
      refolded.updates.size() - refolded.covered.partials() + refolded.covered.contributors();
  round.covered = std::move(refolded.covered);
  round.snapshot.bytes_received = refolded.bytes_received;
  return absl::OkStatus();
}

absl::Status RoundRestorer::LoadResult(const RoundRecord& record, RestoredRound& round) const {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::string bytes, store_.ReadResult(record.name));
  if (!round.snapshot.manifest) return StoreCorrupt("the manifest is missing");
  PublishedResult result;
  if (round.spec.publish_partial) {
    result.partial = bytes;
  } else {
    SPARSEAGG_ASSIGN_OR_RETURN(result.tensors, ReadResult(bytes, round.spec));
  }
  round.result_memory =
      aggregation_.RecordReservation(bytes.size() + round.snapshot.contributors * kRecordBytes);
  result.spec = round.spec;
  for (const TensorSpec& spec : round.spec.tensors) {
    result.result_specs.push_back(ResultSpec(spec));
  }
  result.manifest = *round.snapshot.manifest;
  round.result = std::make_shared<const PublishedResult>(std::move(result));
  return absl::OkStatus();
}

}  // namespace sparseagg
