// What a root does at one leaf in each of its rounds: open it again, ask for its contributors, seal
// it, and erase it.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/names.h"
#include "service/tree/tree_rounds.h"

namespace sparseagg {
namespace {

uint64_t HadAtStart(const LeafRound& there) {
  return there.start.id.empty() ? there.contributors : there.start.contributors;
}

// Returns whether another process answers than before, which did not have all that was seen.
bool IsOlder(const LeafRound& there, const LeafRound& seen) {
  const bool is_same = !there.start.id.empty() && there.start.id == seen.start.id;
  return !is_same && HadAtStart(there) < seen.contributors;
}

}  // namespace

Backoff::Time TreeRounds::WorkOn(const std::string& leaf) {
  const Backoff::Time next = ForEachDue(leaf, &LeafState::work,
                                        [&](TreeRound& round) { return WorkOnRound(round, leaf); });
  GreetIfUnasked(leaf);
  return next;
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
  if (IsCounted(round, leaf)) {
    if (own->state == RoundState::kOpen && HasPart(round, leaf)) {
      return WorkOnPart(round, leaf, *own);
    }
    return EndAt(round, leaf);  // it may be given up
  }
  if (own->state != RoundState::kOpen) return Idle();
  const LeafState state = StateOf(round, leaf);
  if (!state.lost.empty()) return Idle();
  if (!state.created && !CreateAgain(round, leaf)) return Repeat();
  return IsSealing(round) ? SealAt(round, leaf, *own) : Poll(round, leaf, *own);
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
  const uint64_t before = StateOf(round, leaf).contributors;
  const bool is_lost = Look(round, leaf, polled);
  if (is_lost || (has_goal && polled.ok() && polled->contributors != before)) WakeTick(round);
  return {has_goal ? options_.goal_poll_interval : options_.poll_interval};
}

bool TreeRounds::Look(TreeRound& round, const std::string& leaf,
                      const absl::StatusOr<LeafRound>& there) {
  bool is_lost = false;
  Change(round, leaf, [&](LeafState& state) {
    if (there.ok() && there->may_be_restored) return;  // its next start may have the round
    if (absl::IsNotFound(there.status()) || ErrorReason(there.status()) == "ROUND_NOT_OPEN" ||
        (there.ok() && there->state == RoundState::kAborted)) {
      state.lost = "has no longer the round";
    } else if (there.ok() && IsOlder(*there, state.seen)) {
      state.lost = absl::StrCat("has an older copy of the round: ", state.seen.contributors,
                                " contributors were there, and ", HadAtStart(*there),
                                " when it started again");
    } else if (there.ok()) {
      state.seen = *there;
      state.contributors = there->contributors;
    }
    is_lost = !state.lost.empty();
  });
  return is_lost;
}

TreeRounds::Next TreeRounds::SealAt(TreeRound& round, const std::string& leaf,
                                    const RoundSnapshot& own) {
  const LeafState state = StateOf(round, leaf);
  if (state.published) return Idle();
  const std::string name(PublicName(round.name));
  const std::shared_ptr<LeafLink> link = LinkTo(round, leaf);
  const auto there =
      Note(round, leaf, state.sealed.has_value() ? link->Get(name) : link->Seal(name));
  const bool is_lost = Look(round, leaf, there);
  const bool is_published = !is_lost && there.ok() && there->state == RoundState::kPublished;
  Change(round, leaf, [&](LeafState& now) {
    now.published = is_published;
    if (!there.ok() || is_lost || there->may_be_restored) return;
    const Backoff::Time when = options_.steady_now();
    if (is_published) now.queued = when;
    // A copy of the leaf from before the seal, which lacks nothing, is sealed again.
    if (there->state == RoundState::kOpen) return now.sealed.reset();
    // That it is published is no progress the second time, when it was not received the first time.
    if (!is_published || !now.sealed.has_value()) now.silent_since = when;
    if (!now.sealed.has_value()) now.sealed = when;
  });
  if (is_lost) {
    WakeTick(round);
    return Idle();
  }
  if (!there.ok() || there->may_be_restored) return Repeat();
  if (!is_published) return WaitToPublish(state, own.spec.policy.leaf_wait);
  options_.on_work();  // Transfer() has something to do
  return Idle();
}

// The leaf is asked again after a quarter of the time that it has been at work, and before it
// counts as silent.
TreeRounds::Next TreeRounds::WaitToPublish(const LeafState& before,
                                           std::optional<Milliseconds> leaf_wait) const {
  const auto elapsed = before.sealed.has_value() ? options_.steady_now() - *before.sealed
                                                 : Backoff::Time::duration(0);
  Milliseconds longest = options_.longest_pause;
  if (leaf_wait.has_value()) longest = std::min(longest, *leaf_wait / 4);
  return {std::clamp(std::chrono::duration_cast<Milliseconds>(elapsed / 4),
                     std::min(longest, Milliseconds(1)), longest)};
}

bool TreeRounds::IsCounted(const TreeRound& round, const std::string& leaf) const {
  return store_.Find(round.name, LeafSender(leaf)).has_value();
}

// The updates of an ended round are of no use, and its contributors should hear that.
TreeRounds::Next TreeRounds::EndAt(TreeRound& round, const std::string& leaf) {
  const LeafState state = StateOf(round, leaf);
  const std::optional<UpdateRecord> counted = store_.Find(round.name, LeafSender(leaf));
  if (state.ended || (counted.has_value() && counted->update_id != kGivenUpId)) return Idle();
  const absl::StatusOr<bool> is_foreign = IsForeign(round, leaf);
  absl::Status ended = is_foreign.status();
  if (is_foreign.ok() && !*is_foreign) {
    ended = Note(round, leaf, LinkTo(round, leaf)->GiveUp(std::string(PublicName(round.name))));
  }
  if (IsSilence(ended) || RetryAfterMs(ended) > 0) return Repeat();
  Change(round, leaf, [](LeafState& s) { s.ended = true; });
  return Idle();
}

// Another creator may have given the name to a round of this leaf, where the own one never was.
absl::StatusOr<bool> TreeRounds::IsForeign(TreeRound& round, const std::string& leaf) {
  SPARSEAGG_ASSIGN_OR_RETURN(
      const LeafRound there,
      Note(round, leaf, LinkTo(round, leaf)->Get(std::string(PublicName(round.name)))));
  std::string id;
  std::vector<Leaf> leaves;
  {
    const std::lock_guard lock(mutex_);
    id = round.row.id;
    leaves = round.row.leaves;
  }
  // Rounds from before there were ids are known by their leaves.
  const bool has_ids = !id.empty() && !there.tree.root_round.empty();
  const bool is_foreign =
      has_ids ? there.tree.root_round != id
              : there.tree.self != leaf ||
                    !std::ranges::equal(there.tree.leaves, leaves, {}, &Leaf::id, &Leaf::id);
  if (is_foreign) {
    options_.log("a leaf has another round of this name, which is left alone", round.name, leaf);
  }
  return is_foreign;
}

TreeRounds::Next TreeRounds::EraseAt(TreeRound& round, const std::string& leaf) {
  if (StateOf(round, leaf).erased) return Idle();
  const std::string name(PublicName(round.name));
  const std::shared_ptr<LeafLink> link = LinkTo(round, leaf);
  const absl::StatusOr<bool> is_foreign = IsForeign(round, leaf);
  absl::Status erased = is_foreign.status();
  if (is_foreign.ok() && !*is_foreign) {
    erased = Note(round, leaf, link->Abort(name));
    if (!IsSilence(erased)) erased = Note(round, leaf, link->Delete(name));
  }
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
