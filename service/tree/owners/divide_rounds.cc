// What a root does in a round with owners once every leaf is counted, or given up: it creates the
// rounds of the owners, waits for them, hashes what they have and seals its own round.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/names.h"
#include "service/tree/owners/divided_digest.h"
#include "service/tree/tree_rounds.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;

}  // namespace

std::string TreeRounds::PartsPrefix(const RoundSnapshot& own) {
  return own.spec.tree.is_divided() ? absl::StrCat("own-", IdOf(own)) : "";
}

std::string TreeRounds::PartName(const TreeRound& round, const std::string& leaf) const {
  const std::lock_guard lock(mutex_);
  const auto place = std::ranges::find(round.row.leaves, leaf, &Leaf::id);
  return absl::StrCat(std::string(kRoundPrefix), round.row.parts, "-",
                      place - round.row.leaves.begin());
}

// --- All owners ---

absl::Status TreeRounds::BeginDividing(TreeRound& round, const RoundSnapshot& own) {
  std::vector<Leaf> leaves;
  for (const Leaf& leaf : own.spec.tree.leaves) {
    const std::optional<UpdateRecord> counted = store_.Find(round.name, LeafSender(leaf.id));
    if (counted.has_value() && counted->update_id != kGivenUpId) leaves.push_back(leaf);
  }
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<RowRange> ranges,
                             CutRows(own.spec.tensors, leaves.size()));
  std::vector<ResultPart> parts;
  for (size_t i = 0; i < ranges.size(); ++i) {
    parts.push_back({leaves[i], PartName(round, leaves[i].id), ranges[i]});
  }
  {
    const std::lock_guard lock(mutex_);
    if (round.dividing.has_value()) return absl::OkStatus();
    round.dividing = {.since = options_.steady_now(), .leaves = leaves, .parts = std::move(parts)};
  }
  WakeAll(round);
  return absl::OkStatus();
}

milliseconds TreeRounds::Divide(TreeRound& round, const RoundSnapshot& own) {
  if (!BeginDividing(round, own).ok()) return kRetryPause;
  const std::optional<milliseconds> wait = own.spec.policy.leaf_wait;
  const Backoff::Time now = options_.steady_now();
  milliseconds left = options_.poll_interval;
  std::string failure;
  std::optional<DividedResult> result;
  {
    const std::lock_guard lock(mutex_);
    const Dividing& dividing = *round.dividing;
    result = dividing.result;
    if (dividing.parts.empty()) result = DividedResult();  // every leaf is given up
    for (const ResultPart& part : dividing.parts) {
      const LeafState& state = round.leaves.at(part.owner.id);
      if (!state.part.failure.empty()) {
        failure = absl::StrCat(kOwnerFailed, "owner \"", part.owner.id, "\": ", state.part.failure);
      }
      if (!wait.has_value()) continue;
      const Backoff::Time since = std::max(state.server->heard, dividing.since);
      if (now - since >= *wait) {
        failure = absl::StrCat(kOwnerLost, "owner \"", part.owner.id,
                               "\" does not answer: ", state.server->error);
      }
      left = std::min(left,
                      std::max(kRetryPause, std::chrono::ceil<milliseconds>(since + *wait - now)));
    }
  }
  if (!failure.empty()) return Abort(round, failure);
  return result.has_value() ? SealOwn(round, own, result) : left;
}

// --- One owner ---

TreeRounds::Next TreeRounds::WorkOnPart(TreeRound& round, const std::string& leaf,
                                        const RoundSnapshot& own) {
  std::optional<ResultPart> part;
  std::vector<Leaf> leaves;
  bool is_hashed = false;
  {
    const std::lock_guard lock(mutex_);
    if (!round.dividing.has_value()) return Idle();
    const auto found = std::ranges::find(round.dividing->parts, leaf,
                                         [](const ResultPart& one) { return one.owner.id; });
    if (found == round.dividing->parts.end()) return Idle();
    part = *found;
    leaves = round.dividing->leaves;
    is_hashed = round.dividing->result.has_value();
  }
  const PartState state = StateOf(round, leaf).part;
  if (is_hashed || !state.failure.empty()) return Idle();
  if (!state.created) return CreatePart(round, own, *part, leaves);
  const auto there = Note(round, leaf, LinkTo(round, leaf)->GetOwned(part->round));
  Change(round, leaf, [&](LeafState& now) {
    if (absl::IsNotFound(there.status())) now.part = {};  // it is made again
    if (!there.ok()) return;
    if (there->state == RoundState::kAborted) {
      now.part.failure = there->failure.empty() ? "its round is aborted" : there->failure;
    }
    if (there->state == RoundState::kPublished) now.part.published = *there;
  });
  if (!there.ok() || !IsFinal(there->state)) return Repeat();
  // It must stay there until its part is hashed.
  if (state.published.has_value()) return {options_.goal_poll_interval};
  WakeTick(round);
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, other] : round.leaves) other.transfer.Wake();  // one of them hashes
  }
  options_.on_work();
  return {options_.goal_poll_interval};
}

TreeRounds::Next TreeRounds::CreatePart(TreeRound& round, const RoundSnapshot& own,
                                        const ResultPart& part, const std::vector<Leaf>& leaves) {
  CreateRoundArgs args;
  args.round_id = part.round.substr(kRoundPrefix.size());
  args.request_id = args.round_id;  // no other round ever has the name
  args.spec.tensors = own.spec.tensors;
  args.spec.durability = own.spec.durability;
  args.spec.keep_updates = own.spec.keep_updates;
  args.spec.policy.leaf_wait = own.spec.policy.leaf_wait;
  args.spec.tree = {.leaves = leaves,
                    .self = "",
                    .owners = true,
                    .part = RoundPart{std::string(PublicName(round.name)), part.rows}};
  const std::string& leaf = part.owner.id;
  const auto created = Note(round, leaf, LinkTo(round, leaf)->Create(args));
  Change(round, leaf, [&](LeafState& now) { now.part.created = created.ok(); });
  if (created.ok()) return {};
  if (IsSilence(created.status()) || RetryAfterMs(created.status()) > 0) return Repeat();
  Change(round, leaf,
         [&](LeafState& now) { now.part.failure = std::string(created.status().message()); });
  WakeTick(round);
  return Idle();
}

absl::Status TreeRounds::EndPart(TreeRound& round, const std::string& leaf) {
  {
    const std::lock_guard lock(mutex_);
    if (round.row.parts.empty() || round.leaves.at(leaf).part.ended) return absl::OkStatus();
  }
  const std::string name = PartName(round, leaf);
  const std::shared_ptr<LeafLink> link = LinkTo(round, leaf);
  absl::Status ended = Note(round, leaf, link->Abort(name));
  if (!IsSilence(ended)) ended = Note(round, leaf, link->Delete(name));
  if (!ended.ok() && !absl::IsNotFound(ended)) return ended;
  Change(round, leaf, [](LeafState& state) { state.part.ended = true; });
  return absl::OkStatus();
}

// --- The result ---

std::optional<TreeRounds::Next> TreeRounds::HashParts(TreeRound& round, const std::string& leaf) {
  {
    const std::lock_guard lock(mutex_);
    const bool is_first =
        !round.dividing->parts.empty() && round.dividing->parts.front().owner.id == leaf;
    if (!is_first || std::exchange(round.dividing->is_hashing, true)) return std::nullopt;
  }
  const std::optional<Next> next = HashPublished(round);
  const std::lock_guard lock(mutex_);
  round.dividing->is_hashing = false;
  return next;
}

std::optional<TreeRounds::Next> TreeRounds::HashPublished(TreeRound& round) {
  std::vector<ResultPart> parts;
  std::vector<OwnerRound> owned;
  {
    const std::lock_guard lock(mutex_);
    if (round.dividing->result.has_value()) return std::nullopt;
    parts = round.dividing->parts;
    for (const ResultPart& part : parts) {
      const auto& published = round.leaves.at(part.owner.id).part.published;
      if (!published.has_value()) return std::nullopt;
      owned.push_back(*published);
    }
  }
  const absl::StatusOr<RoundSnapshot> own = engine_.GetRound(round.name);
  if (!own.ok() || own->state != RoundState::kOpen) return std::nullopt;
  DividedResult result = {.parts = parts,
                          .nnz = std::vector<uint64_t>(own->spec.tensors.size()),
                          .infinite_values = 0,
                          .updates_digest = owned.front().manifest.updates_digest,
                          .result_digest = ""};
  for (const OwnerRound& part : owned) {
    if (part.manifest.updates_digest != result.updates_digest ||
        part.nnz.size() != result.nnz.size()) {
      Abort(round, absl::StrCat(kOwnerFailed, "the owners have not counted the same updates"));
      return std::nullopt;
    }
    result.infinite_values += part.manifest.infinite_values;
    for (size_t i = 0; i < part.nnz.size(); ++i) result.nnz[i] += part.nnz[i];
  }
  const auto rows = MakeDivided(own->spec, parts, ReaderOf(parts));
  auto digest = rows.ok() ? DigestOfDivided(*rows, [&] { return IsOver(round); }) : rows.status();
  if (!digest.ok()) {
    if (ErrorReason(digest.status()) != "OWNER_LOST") return Repeat();
    Abort(round, absl::StrCat(kOwnerLost, std::string(digest.status().message())));
    return std::nullopt;
  }
  result.result_digest = *std::move(digest);
  {
    const std::lock_guard lock(mutex_);
    round.dividing->result = std::move(result);
  }
  WakeTick(round);
  return std::nullopt;
}

bool TreeRounds::HasPart(const TreeRound& round, const std::string& leaf) const {
  const std::lock_guard lock(mutex_);
  return round.dividing.has_value() &&
         std::ranges::any_of(round.dividing->parts,
                             [&](const ResultPart& part) { return part.owner.id == leaf; });
}

bool TreeRounds::IsOver(const TreeRound& round) const {
  const absl::StatusOr<RoundSnapshot> own = engine_.GetRound(round.name);
  return is_cancelled_ || !own.ok() || own->state != RoundState::kOpen;
}

}  // namespace sparseagg
