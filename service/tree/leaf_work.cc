// What a root does at one leaf in each of its rounds: open it again, ask for its contributors, seal
// it, and erase it.
#include <optional>
#include <string>

#include "base/status.h"
#include "service/engine/names.h"
#include "service/tree/tree_rounds.h"

namespace sparseagg {

Backoff::Time TreeRounds::WorkOn(const std::string& leaf) {
  return ForEachDue(leaf, &LeafState::work,
                    [&](TreeRound& round) { return WorkOnRound(round, leaf); });
}

TreeRounds::Next TreeRounds::WorkOnRound(TreeRound& round, const std::string& leaf) {
  const absl::StatusOr<RoundSnapshot> own = engine_.GetRound(round.name);
  if (absl::IsNotFound(own.status())) return EraseAt(round, leaf);
  if (!own.ok()) return Repeat();
  if (IsFinal(own->state)) {
    // A round that could not be restored has another failure; the next start may restore it.
    if (!own->failure.empty() && !IsFailureOfTree(own->failure)) return Idle();
    if (own->state == RoundState::kAborted && !EndPart(round, leaf).ok()) return Repeat();
    return EndAt(round, leaf);
  }
  if (own->state != RoundState::kOpen) return Idle();
  if (IsCounted(round, leaf)) return WorkOnPart(round, leaf, *own);
  const LeafState state = StateOf(round, leaf);
  if (state.lost) return Idle();
  if (!state.created && !CreateAgain(round, leaf)) return Repeat();
  return IsSealing(round) ? SealAt(round, leaf) : Poll(round, leaf, *own);
}

// A round that was open when this process started may not exist at all leaves.
bool TreeRounds::CreateAgain(TreeRound& round, const std::string& leaf) {
  const std::unique_lock opening(round.opening, std::try_to_lock);
  if (!opening.owns_lock()) return false;  // Create() is at it
  // It may have been withdrawn in the meantime.
  const absl::StatusOr<RoundSnapshot> own = engine_.GetRound(round.name);
  if (!own.ok() || own->state != RoundState::kOpen) return false;
  if (!StateOf(round, leaf).created && !CreateAt(round, leaf, *own).ok()) return false;
  WakeTick(round);
  return true;
}

TreeRounds::Next TreeRounds::Poll(TreeRound& round, const std::string& leaf,
                                  const RoundSnapshot& own) {
  const auto polled = Note(round, leaf, LinkTo(round, leaf)->Get(own.name));
  const bool has_goal = own.spec.policy.goal_contributors > 0;
  bool wakes_tick = false;
  Change(round, leaf, [&](LeafState& state) {
    state.lost =
        absl::IsNotFound(polled.status()) || (polled.ok() && polled->state == RoundState::kAborted);
    wakes_tick =
        state.lost || (has_goal && polled.ok() && state.contributors != polled->contributors);
    if (polled.ok()) state.contributors = polled->contributors;
  });
  if (wakes_tick) WakeTick(round);
  return {has_goal ? options_.goal_poll_interval : options_.poll_interval};
}

TreeRounds::Next TreeRounds::SealAt(TreeRound& round, const std::string& leaf) {
  const LeafState state = StateOf(round, leaf);
  if (state.published) return Idle();
  const std::string name(PublicName(round.name));
  const std::shared_ptr<LeafLink> link = LinkTo(round, leaf);
  const auto there = Note(round, leaf, state.sealed ? link->Get(name) : link->Seal(name));
  const bool is_lost = absl::IsNotFound(there.status()) ||
                       (there.ok() && there->state == RoundState::kAborted) ||
                       ErrorReason(there.status()) == "ROUND_NOT_OPEN";
  const bool is_published = there.ok() && there->state == RoundState::kPublished;
  Change(round, leaf, [&](LeafState& now) {
    now.lost = is_lost;
    now.published = is_published;
    if (!there.ok() || is_lost) return;
    now.contributors = there->contributors;
    if (!now.sealed) now.progress = options_.now();
    now.sealed = true;
  });
  if (is_lost) {
    WakeTick(round);
    return Idle();
  }
  if (!is_published) return Repeat();
  options_.on_work();  // Transfer() has something to do
  return Idle();
}

bool TreeRounds::IsCounted(const TreeRound& round, const std::string& leaf) const {
  return store_.Find(round.name, LeafSender(leaf)).has_value();
}

// The updates of an ended round are of no use, and its contributors should hear that.
TreeRounds::Next TreeRounds::EndAt(TreeRound& round, const std::string& leaf) {
  const LeafState state = StateOf(round, leaf);
  const std::optional<UpdateRecord> counted = store_.Find(round.name, LeafSender(leaf));
  if (state.ended || (counted.has_value() && counted->update_id != kGivenUpId)) return Idle();
  const absl::Status ended =
      Note(round, leaf, LinkTo(round, leaf)->Abort(std::string(PublicName(round.name))));
  if (IsSilence(ended)) return Repeat();
  Change(round, leaf, [](LeafState& s) { s.ended = true; });
  return Idle();
}

TreeRounds::Next TreeRounds::EraseAt(TreeRound& round, const std::string& leaf) {
  if (StateOf(round, leaf).erased) return Idle();
  const std::string name(PublicName(round.name));
  const std::shared_ptr<LeafLink> link = LinkTo(round, leaf);
  absl::Status erased = Note(round, leaf, link->Abort(name));
  if (!IsSilence(erased)) erased = Note(round, leaf, link->Delete(name));
  if (erased.ok() || absl::IsNotFound(erased)) erased = EndPart(round, leaf);
  if (IsSilence(erased) && !IsConfigured(leaf) &&
      options_.now() - StateOf(round, leaf).server->answered >= options_.forget_after) {
    options_.log("a leaf is gone and keeps its part of a deleted round", round.name, leaf);
    erased = absl::OkStatus();
  }
  if (!erased.ok() && !absl::IsNotFound(erased)) return Repeat();
  Change(round, leaf, [](LeafState& state) { state.erased = true; });
  WakeTick(round);
  return Idle();
}

}  // namespace sparseagg
