// What a root does at one leaf in each of its rounds: open it, ask for its contributors, seal it,
// receive its partial aggregate, erase it.
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/status.h"
#include "service/engine/names.h"
#include "service/engine/partial/partial_body.h"
#include "service/tree/tree_rounds.h"

namespace sparseagg {

bool TreeRounds::WorkOn(const std::string& leaf) {
  bool more = false;
  for (const std::shared_ptr<TreeRound>& round : All()) {
    if (round->leaves.contains(leaf)) more = WorkOnRound(*round, leaf) || more;
  }
  return more;
}

bool TreeRounds::WorkOnRound(TreeRound& round, const std::string& leaf) {
  const absl::StatusOr<RoundSnapshot> own = engine_.GetRound(round.name);
  if (absl::IsNotFound(own.status())) {
    EraseAt(round, leaf);
    return false;
  }
  if (!own.ok()) return false;
  if (IsFinal(own->state)) {
    // A round that could not be restored has a failure; the next start may restore it.
    if (own->failure.empty()) EndAt(round, leaf);
    return false;
  }
  if (own->state != RoundState::kOpen || IsCounted(round, leaf)) return false;
  LeafState state = StateOf(round, leaf);
  if (state.lost) return false;
  if (!state.created && !CreateAt(round, leaf, *own).ok()) return false;
  bool sealing = false;
  {
    const std::lock_guard lock(mutex_);
    sealing = round.row.sealing.has_value();
  }
  if (sealing) return Collect(round, leaf);
  Poll(round, leaf, *own);
  return false;
}

void TreeRounds::Poll(TreeRound& round, const std::string& leaf, const RoundSnapshot& own) {
  const Time now = options_.now();
  const auto interval =
      own.spec.policy.goal_contributors > 0 ? options_.goal_poll_interval : options_.poll_interval;
  if (now - StateOf(round, leaf).polled < interval) return;
  const auto polled = Note(leaf, LinkTo(leaf)->Get(own.name));
  Change(round, leaf, [&](LeafState& state) {
    state.polled = now;
    if (polled.ok()) state.contributors = polled->contributors;
    state.lost =
        absl::IsNotFound(polled.status()) || (polled.ok() && polled->state == RoundState::kAborted);
  });
}

bool TreeRounds::Collect(TreeRound& round, const std::string& leaf) {
  const std::string name(PublicName(round.name));
  const std::shared_ptr<LeafLink> link = LinkTo(leaf);
  const auto note_progress = [&] {
    Change(round, leaf, [&](LeafState& state) { state.progress = options_.now(); });
  };
  absl::StatusOr<LeafRound> there;
  if (!StateOf(round, leaf).sealed) {
    there = Note(leaf, link->Seal(name));
    if (there.ok()) {
      Change(round, leaf, [&](LeafState& state) { state.sealed = true; });
      note_progress();
    }
  } else {
    there = Note(leaf, link->Get(name));
  }
  if (there.ok() && there->state == RoundState::kSealed) {
    there = Note(leaf, link->Wait(name, options_.wait_timeout));
  }
  if (absl::IsNotFound(there.status()) || (there.ok() && there->state == RoundState::kAborted) ||
      ErrorReason(there.status()) == "ROUND_NOT_OPEN") {
    Change(round, leaf, [](LeafState& state) { state.lost = true; });
    return false;
  }
  if (!there.ok() || there->state != RoundState::kPublished) return false;
  Change(round, leaf, [&](LeafState& state) { state.contributors = there->contributors; });
  const auto partial = Note(leaf, link->DescribePartial(name));
  if (!partial.ok()) return false;
  note_progress();
  const absl::Status uploaded = Receive(round, leaf, *partial, *link);
  if (!uploaded.ok()) {
    Note(leaf, uploaded).IgnoreError();
    return false;
  }
  const std::lock_guard lock(mutex_);
  servers_.at(leaf).partial_bytes += partial->bytes;
  return true;
}

absl::Status TreeRounds::Receive(TreeRound& round, const std::string& leaf,
                                 const LeafPartial& partial, LeafLink& link) {
  const UpdateHeader header = {.round = round.name,
                               .contributor = LeafSender(leaf),
                               .update_id = absl::BytesToHexString(partial.digest)};
  SPARSEAGG_ASSIGN_OR_RETURN(const std::shared_ptr<Upload> upload,
                             engine_.BeginUpload(header, {PartialHeader(partial.bytes)}));
  if (upload->committed_offset() < upload->total_bytes()) {
    SPARSEAGG_RETURN_IF_ERROR(link.ReadPartial(
        std::string(PublicName(round.name)), upload->committed_offset(),
        [&](uint64_t offset, std::string_view bytes) -> absl::Status {
          SPARSEAGG_RETURN_IF_ERROR(upload->Append(offset, bytes, std::nullopt));
          Change(round, leaf, [&](LeafState& state) { state.progress = options_.now(); });
          return absl::OkStatus();
        }));
  }
  if (upload->committed_offset() < upload->total_bytes()) {
    return MakeError(absl::StatusCode::kUnavailable, "CONNECTION_LOST",
                     "the leaf ended its partial aggregate early");
  }
  return upload->Finish().status();
}

bool TreeRounds::IsCounted(const TreeRound& round, const std::string& leaf) const {
  return store_.Find(round.name, LeafSender(leaf)).has_value();
}

// The updates of an ended round are of no use, and its contributors should hear that.
void TreeRounds::EndAt(TreeRound& round, const std::string& leaf) {
  const LeafState state = StateOf(round, leaf);
  const std::optional<UpdateRecord> counted = store_.Find(round.name, LeafSender(leaf));
  if (state.ended || (counted.has_value() && counted->update_id != kGivenUpId)) return;
  const absl::Status ended = Note(leaf, LinkTo(leaf)->Abort(std::string(PublicName(round.name))));
  if (IsSilence(ended)) return;
  Change(round, leaf, [](LeafState& s) { s.ended = true; });
}

void TreeRounds::EraseAt(TreeRound& round, const std::string& leaf) {
  if (StateOf(round, leaf).erased) return;
  const std::string name(PublicName(round.name));
  const std::shared_ptr<LeafLink> link = LinkTo(leaf);
  absl::Status erased = Note(leaf, link->Abort(name));
  if (IsSilence(erased)) return;
  erased = Note(leaf, link->Delete(name));
  if (!erased.ok() && !absl::IsNotFound(erased)) return;
  Change(round, leaf, [](LeafState& state) { state.erased = true; });
}

}  // namespace sparseagg
