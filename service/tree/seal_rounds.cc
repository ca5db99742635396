// What a root does in each round about all of its leaves: it seals on request or by the policy,
// gives leaves up, and forgets what all leaves have erased.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/names.h"
#include "service/engine/partial/partial_body.h"
#include "service/tree/tree_rounds.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;

constexpr char kLeafLost[] = "LEAF_LOST: ";
constexpr char kPartialRefused[] = "PARTIAL_REFUSED: ";
constexpr char kInsufficient[] = "INSUFFICIENT_CONTRIBUTORS: ";

std::chrono::system_clock::time_point InMilliseconds(std::chrono::system_clock::time_point time) {
  return std::chrono::time_point_cast<milliseconds>(time);
}

// Rounded up, so that the time has come after it.
template <class Time>
milliseconds Until(Time then, Time now) {
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(then - now));
}

milliseconds LookEvery(std::optional<milliseconds> leaf_wait) {
  if (!leaf_wait.has_value()) return milliseconds::max();
  return std::max(milliseconds(1), *leaf_wait / 4);
}

}  // namespace

bool TreeRounds::IsFailureOfTree(std::string_view failure) {
  return failure.starts_with(kLeafLost) || failure.starts_with(kPartialRefused) ||
         failure.starts_with(kInsufficient) || failure.starts_with(kOwnerFailed) ||
         failure.starts_with(kOwnerLost);
}

// --- Sealing ---

absl::StatusOr<RoundSnapshot> TreeRounds::Seal(std::string_view name) {
  const std::shared_ptr<TreeRound> round = Find(name);
  if (round == nullptr) return engine_.SealRound(name);
  SPARSEAGG_ASSIGN_OR_RETURN(const RoundSnapshot own, engine_.GetRound(name));
  if (own.state != RoundState::kOpen) return engine_.SealRound(name);
  if (IsSealing(*round)) return own;
  SPARSEAGG_RETURN_IF_ERROR(CheckMinimum(*round, own));
  SPARSEAGG_RETURN_IF_ERROR(BeginSeal(*round, false));
  return own;
}

// The counts only grow, so what is enough now stays enough.
absl::Status TreeRounds::CheckMinimum(TreeRound& round, const RoundSnapshot& own) {
  const uint64_t minimum = own.spec.policy.min_contributors;
  for (const Leaf& leaf : own.spec.tree.leaves) {
    if (ContributorsOf(round) >= minimum) return absl::OkStatus();
    const auto now = Note(round, leaf.id, LinkTo(round, leaf.id)->Get(own.name));
    if (!now.ok()) continue;
    Change(round, leaf.id, [&](LeafState& state) {
      state.contributors = std::max(state.contributors, now->contributors);
    });
  }
  const uint64_t contributors = ContributorsOf(round);
  if (contributors >= minimum) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, "INSUFFICIENT_CONTRIBUTORS",
                   absl::StrCat("round \"", own.name, "\" has ", contributors, " of at least ",
                                minimum, " contributors; wait for more, or abort it"));
}

absl::Status TreeRounds::BeginSeal(TreeRound& round, bool at_goal) {
  const Time now = InMilliseconds(options_.now());
  SPARSEAGG_RETURN_IF_ERROR(Store(round, false, [&](TreeRow& row) {  // under the lock
    if (row.sealing.has_value()) return false;
    for (auto& [leaf, state] : round.leaves) state.silent_since = options_.steady_now();
    row.sealing = now;
    if (at_goal && !row.goal_reached.has_value()) row.goal_reached = now;
    return true;
  }));
  WakeAll(round);
  return absl::OkStatus();
}

uint64_t TreeRounds::ContributorsOf(const TreeRound& round) const {
  const std::lock_guard lock(mutex_);
  uint64_t contributors = 0;
  for (const auto& [leaf, state] : round.leaves) contributors += state.contributors;
  return contributors;
}

RoundSnapshot TreeRounds::Shown(RoundSnapshot snapshot) const {
  if (!snapshot.spec.tree.is_root()) return snapshot;
  for (Leaf& leaf : snapshot.spec.tree.leaves) leaf.address = AddressOf(leaf);
  if (snapshot.manifest.has_value()) ShowAddresses(*snapshot.manifest);
  const std::shared_ptr<TreeRound> round = Find(QualifiedName(snapshot.tenant, snapshot.name));
  if (round == nullptr || snapshot.state != RoundState::kOpen) return snapshot;
  snapshot.contributors = std::max(snapshot.contributors, ContributorsOf(*round));
  const std::lock_guard lock(mutex_);
  snapshot.goal_reached = snapshot.goal_reached || round->row.goal_reached.has_value();
  if (!round->row.sealing.has_value()) return snapshot;
  snapshot.state = RoundState::kSealed;
  snapshot.seal_time = round->row.sealing;
  snapshot.seal_reason = SealReason::kRequested;
  snapshot.close_time.reset();
  snapshot.time_left.reset();
  if (snapshot.stall.ok()) snapshot.stall = StallLocked(*round);
  return snapshot;
}

absl::Status TreeRounds::StallLocked(const TreeRound& round) {
  for (const auto& [leaf, state] : round.leaves) {
    if (state.transferred || state.server->up || !state.lost.empty()) continue;
    return MakeError(
        absl::StatusCode::kUnavailable, "LEAF_UNAVAILABLE",
        absl::StrCat("leaf ", Quoted(leaf), " does not answer: ", state.server->error));
  }
  return absl::OkStatus();
}

void TreeRounds::ShowAddresses(Manifest& manifest) const {
  for (ResultPart& part : manifest.parts) part.owner.address = AddressOf(part.owner);
}

// --- All leaves ---

Backoff::Time TreeRounds::Tick() {
  using Clock = std::chrono::steady_clock;
  Backoff::Time next = Clock::now() + options_.poll_interval;
  for (const std::shared_ptr<TreeRound>& round : All()) {
    uint64_t wakes = 0;
    Backoff::Time expected;
    {
      const std::lock_guard lock(mutex_);
      wakes = round->tick.wakes();
      if (round->tick.due() > Clock::now()) {
        next = std::min(next, round->tick.due());
        continue;
      }
      expected = round->expected_tick.value_or(Clock::now());
    }
    const Milliseconds late = Until(Clock::now(), expected);
    const Milliseconds pause = std::min(TickRound(*round, late), options_.poll_interval);
    const std::lock_guard lock(mutex_);
    round->expected_tick = Clock::now() + pause;
    round->tick.Wait(wakes, Clock::now(), pause);
    next = std::min(next, round->tick.due());
  }
  return next;
}

milliseconds TreeRounds::TickRound(TreeRound& round, milliseconds late) {
  const absl::StatusOr<RoundSnapshot> own = engine_.GetRound(round.name);
  if (absl::IsNotFound(own.status())) return Forget(round);
  if (!own.ok() || own->state != RoundState::kOpen) return options_.poll_interval;
  // Leaves that were asked after a restart have the round, too.
  const absl::Status opened = Store(round, false, [&](TreeRow& row) {
    const bool all =
        std::ranges::all_of(round.leaves, [](const auto& entry) { return entry.second.created; });
    return all && !std::exchange(row.opened, true);
  });
  if (!opened.ok()) return kRetryPause;
  if (const auto wait = own->spec.policy.leaf_wait; wait.has_value() && late >= *wait / 2) {
    Forgive(round);
  }
  if (!own->spec.policy.leaf_wait.has_value()) {
    if (const std::string why = Hopeless(round); !why.empty()) return Abort(round, why);
  }
  return IsSealing(round) ? Finish(round, *own) : ApplyPolicy(round, *own);
}

void TreeRounds::Forgive(TreeRound& round) {
  const std::lock_guard lock(mutex_);
  const Backoff::Time now = options_.steady_now();
  for (auto& [leaf, state] : round.leaves) state.silent_since = now;
  if (round.dividing.has_value()) round.dividing->since = now;
}

milliseconds TreeRounds::Forget(TreeRound& round) {
  const std::unique_lock opening(round.opening, std::try_to_lock);
  if (!opening.owns_lock()) return kRetryPause;  // Create() may add to what must be erased
  const std::lock_guard storing(round.storing);
  {
    const std::lock_guard lock(mutex_);
    const bool erased =
        std::ranges::all_of(round.leaves, [](const auto& entry) { return entry.second.erased; });
    if (!erased) return options_.poll_interval;
  }
  const TaskRow row = {.key = TreeRowKey(round.name), .value = std::nullopt};
  if (rows_ != nullptr && !rows_->PutTaskRows({&row, 1}, false).ok()) return kRetryPause;
  const std::lock_guard lock(mutex_);
  rounds_.erase(round.name);
  std::erase_if(servers_, [&](const auto& server) {
    return !IsConfigured(server.first) && std::ranges::none_of(rounds_, [&](const auto& other) {
      return other.second->leaves.contains(server.first);
    });
  });
  return options_.poll_interval;
}

std::string TreeRounds::Hopeless(const TreeRound& round) const {
  std::vector<std::pair<std::string, std::string>> reasons;  // of leaves
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [leaf, state] : round.leaves) {
      if (!state.lost.empty()) {
        reasons.emplace_back(leaf, absl::StrCat(kLeafLost, "leaf \"", leaf, "\" ", state.lost));
      } else if (!state.refusal.empty()) {
        reasons.emplace_back(leaf,
                             absl::StrCat(kPartialRefused, "leaf \"", leaf, "\": ", state.refusal));
      }
    }
  }
  for (const auto& [leaf, reason] : reasons) {
    if (!IsCounted(round, leaf)) return absl::StrCat(reason, "; leaf_wait is not set");
  }
  return "";
}

milliseconds TreeRounds::Abort(TreeRound& round, const std::string& failure) {
  if (!engine_.FailRound(round.name, failure).ok()) return kRetryPause;
  options_.log("a round is aborted", round.name, failure);
  WakeAll(round);
  return options_.poll_interval;
}

milliseconds TreeRounds::ApplyPolicy(TreeRound& round, const RoundSnapshot& own) {
  const Time now = options_.now();
  const RoundPolicy& policy = own.spec.policy;
  milliseconds left = options_.poll_interval;
  if (own.close_time.has_value()) left = std::min(left, Until(*own.close_time, now));
  bool close = own.close_time.has_value() && now >= *own.close_time;
  const bool at_goal =
      policy.goal_contributors > 0 && ContributorsOf(round) >= policy.goal_contributors;
  if (at_goal && !close && policy.grace.count() > 0) {
    Time since = InMilliseconds(now);
    const absl::Status stored = Store(round, false, [&](TreeRow& row) {
      const bool is_new = !row.goal_reached.has_value();
      if (is_new) row.goal_reached = since;
      since = *row.goal_reached;
      return is_new;
    });
    if (!stored.ok()) return kRetryPause;
    left = std::min(left, Until(since + policy.grace, now));
    close = now - since >= policy.grace;
  }
  close = close || (at_goal && policy.grace.count() == 0);
  if (!close) return left;
  BeginSeal(round, at_goal).IgnoreError();
  return kRetryPause;
}

milliseconds TreeRounds::Finish(TreeRound& round, const RoundSnapshot& own) {
  const std::optional<milliseconds> wait = own.spec.policy.leaf_wait;
  const Backoff::Time now = options_.steady_now();
  // Often enough that Forgive() is called after a pause of this process as long as `wait`.
  milliseconds left = std::min(options_.poll_interval, LookEvery(wait));
  bool done = true;
  for (const Leaf& leaf : own.spec.tree.leaves) {
    if (IsCounted(round, leaf.id)) continue;
    Backoff::Time since;
    bool is_late = false;
    {
      const std::lock_guard lock(mutex_);
      const LeafState& state = round.leaves.at(leaf.id);
      since = std::max(state.silent_since, state.server->sent);  // one connection for all rounds
      const bool is_awaited = !state.queued.has_value() && !state.is_here;
      const bool is_silent = is_awaited && wait.has_value() && now - since >= *wait;
      const bool is_useless = !state.lost.empty() || !state.refusal.empty();
      is_late = is_silent || (wait.has_value() && is_useless);
    }
    if (is_late && GiveUp(round, leaf.id, own.spec).ok()) continue;
    done = false;
    if (wait.has_value()) left = std::min(left, is_late ? kRetryPause : Until(since + *wait, now));
  }
  if (!done) return left;
  return own.spec.tree.is_divided() ? Divide(round, own) : SealOwn(round, own, std::nullopt);
}

milliseconds TreeRounds::SealOwn(TreeRound& round, const RoundSnapshot& own,
                                 const std::optional<DividedResult>& divided) {
  const absl::StatusOr<RoundSnapshot> sealed = divided.has_value() && !divided->parts.empty()
                                                   ? engine_.SealDivided(round.name, *divided)
                                                   : engine_.SealRound(round.name);
  if (sealed.ok()) {
    WakeAll(round);
    return options_.poll_interval;
  }
  if (ErrorReason(sealed.status()) != "INSUFFICIENT_CONTRIBUTORS") return kRetryPause;
  const absl::StatusOr<RoundSnapshot> short_round = engine_.GetRound(round.name);
  const uint64_t contributors = short_round.ok() ? short_round->contributors : 0;
  return Abort(round, absl::StrCat(kInsufficient, contributors, " of at least ",
                                   own.spec.policy.min_contributors, " contributors"));
}

absl::Status TreeRounds::GiveUp(TreeRound& round, const std::string& leaf, const RoundSpec& spec) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto nothing, engine_.NewReduction(spec, TenantOf(round.name)));
  SPARSEAGG_ASSIGN_OR_RETURN(RoundPartial partial, nothing->Snapshot());
  partial.named = true;
  const std::string bytes = WritePartial(partial);
  const std::string_view piece = bytes;
  const EncodedTensor body = {PartialHeader(bytes.size()), {}, ByteChain(&piece, 1)};
  const absl::Status counted = engine_
                                   .Submit({.round = round.name,
                                            .contributor = LeafSender(leaf),
                                            .update_id = std::string(kGivenUpId)},
                                           {body})
                                   .status();
  if (ErrorReason(counted) == "CONTRIBUTOR_ALREADY_COUNTED" && IsCounted(round, leaf)) {
    return absl::OkStatus();
  }
  SPARSEAGG_RETURN_IF_ERROR(counted);
  options_.log("a leaf is given up", round.name, leaf);
  Change(round, leaf, [](LeafState& state) {
    ++state.server->given_up;
    state.work.Wake();  // its contributors should hear of it
  });
  options_.on_work();
  return absl::OkStatus();
}

}  // namespace sparseagg
