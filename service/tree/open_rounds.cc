// How a root opens a round at its leaves, and withdraws one that a leaf refuses.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rendezvous.h"
#include "base/status.h"
#include "service/engine/names.h"
#include "service/tree/tree_rounds.h"

namespace sparseagg {
namespace {

constexpr uint64_t kRetryAfterMs = 500;

absl::Status About(const std::string& leaf, const absl::Status& status) {
  return MakeError(status.code(), ErrorReason(status),
                   absl::StrCat("leaf \"", leaf, "\": ", std::string(status.message())));
}

}  // namespace

std::string TreeRounds::IdOf(const RoundSnapshot& own) {
  const uint64_t hash = RendezvousHash(own.epoch.store_id, own.name)
                            .Weight(absl::StrCat(own.create_time.time_since_epoch().count()));
  return absl::StrCat(absl::Hex(hash, absl::kZeroPad16));
}

absl::Status TreeRounds::CheckArgs(const CreateRoundArgs& args) const {
  const auto invalid = [](std::string_view reason, std::string_view message) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason, message);
  };
  const RoundTree& tree = args.spec.tree;
  if (tree.is_root() && !tree.part.has_value()) {
    return invalid("INVALID_SPEC", "tree.leaves is set by a server that was started with leaves");
  }
  if (tree.leaves.empty() && tree.owners && options_.leaves.empty()) {
    return invalid("INVALID_SPEC", "tree.owners is for servers that were started with leaves");
  }
  if (tree.owners && tree.self.empty() && args.spec.publish_partial) {
    return invalid("INVALID_SPEC", "tree.owners does not go with publish_partial");
  }
  if (!tree.leaves.empty() && !options_.leaves.empty()) {
    return invalid("INVALID_SPEC", "this server has leaves, so it cannot be a leaf itself");
  }
  if (!tree.self.empty() && !args.spec.publish_partial) {
    return invalid("INVALID_SPEC", "the round of a leaf has publish_partial");
  }
  if (options_.leaves.empty()) {
    const bool is_owner = tree.part.has_value();
    if (is_owner || !args.spec.policy.leaf_wait.has_value()) return absl::OkStatus();
    return invalid("INVALID_POLICY",
                   "policy.leaf_wait is for servers that were started with leaves");
  }
  if (args.spec.policy.max_contributors != 0) {
    return invalid("INVALID_POLICY",
                   "policy.max_contributors is not possible with leaves: they count independently");
  }
  if (args.tenant != kDefaultTenant) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "TREE_TENANT",
                     "a server with leaves has rounds of the default tenant only");
  }
  return absl::OkStatus();
}

// What the leaves still have of a deleted round of this name must not enter the new one.
absl::Status TreeRounds::CheckNameIsFree(const CreateRoundArgs& args) const {
  if (args.round_id.empty()) return absl::OkStatus();
  const std::string name =
      QualifiedName(args.tenant, absl::StrCat(std::string(kRoundPrefix), args.round_id));
  if (Find(name) == nullptr) return absl::OkStatus();
  if (ErrorReason(engine_.GetRound(name).status()) != "ROUND_NOT_FOUND") return absl::OkStatus();
  return WithRetryAfter(
      MakeError(absl::StatusCode::kUnavailable, "LEAF_UNAVAILABLE",
                absl::StrCat("the leaves still have an earlier round ", Quoted(args.round_id),
                             ", which is being erased; try again")),
      kRetryAfterMs);
}

absl::StatusOr<RoundSnapshot> TreeRounds::Create(CreateRoundArgs args) {
  SPARSEAGG_RETURN_IF_ERROR(CheckArgs(args));
  if (options_.leaves.empty()) return engine_.CreateRound(args);
  args.spec.tree = {.leaves = options_.leaves, .self = "", .owners = args.spec.tree.owners};
  SPARSEAGG_RETURN_IF_ERROR(CheckNameIsFree(args));
  SPARSEAGG_ASSIGN_OR_RETURN(const RoundSnapshot own, engine_.CreateRound(args));
  if (own.state != RoundState::kOpen) return Shown(own);  // a late repetition
  std::shared_ptr<TreeRound> round;
  {
    const std::lock_guard lock(mutex_);
    round =
        TrackLocked(QualifiedName(args.tenant, own.name),
                    {.leaves = own.spec.tree.leaves, .id = IdOf(own), .parts = PartsPrefix(own)});
  }
  SPARSEAGG_RETURN_IF_ERROR(Store(*round, true, [&](const TreeRow&) { return !round->is_stored; }));
  {
    const std::lock_guard opening(round->opening);
    SPARSEAGG_RETURN_IF_ERROR(OpenAtLeaves(*round, own));
  }
  SPARSEAGG_RETURN_IF_ERROR(
      Store(*round, true, [](TreeRow& row) { return !std::exchange(row.opened, true); }));
  WakeAll(*round);
  return Shown(own);
}

absl::Status TreeRounds::OpenAtLeaves(TreeRound& round, const RoundSnapshot& own) {
  for (const Leaf& leaf : own.spec.tree.leaves) {
    if (StateOf(round, leaf.id).created) continue;
    const absl::Status created = CreateAt(round, leaf.id, own);
    if (created.ok()) continue;
    if (IsSilence(created) || RetryAfterMs(created) > 0) {
      return WithRetryAfter(
          MakeError(absl::StatusCode::kUnavailable, "LEAF_UNAVAILABLE",
                    absl::StrCat("leaf \"", leaf.id, "\" of round \"", own.name,
                                 "\" does not answer; try again with the same request_id: ",
                                 std::string(created.message()))),
          kRetryAfterMs);
    }
    Withdraw(round, own);
    return About(leaf.id, created);
  }
  return absl::OkStatus();
}

absl::Status TreeRounds::CreateAt(TreeRound& round, const std::string& leaf,
                                  const RoundSnapshot& own) {
  CreateRoundArgs args;
  args.round_id = own.name.substr(kRoundPrefix.size());
  args.request_id = absl::StrCat("tree-", IdOf(own));  // the same for each repetition
  args.spec.tensors = own.spec.tensors;
  args.spec.durability = own.spec.durability;
  args.spec.publish_partial = true;
  args.spec.tree = {.leaves = own.spec.tree.leaves,
                    .self = leaf,
                    .owners = own.spec.tree.owners,
                    .root_round = IdOf(own)};
  SPARSEAGG_ASSIGN_OR_RETURN(const LeafRound created,
                             Note(round, leaf, LinkTo(round, leaf)->Create(args)));
  Change(round, leaf, [&](LeafState& state) {
    state.created = true;
    state.ended = state.erased = state.part.ended =
        false;  // the own round may have been deleted meanwhile
    state.contributors = created.contributors;
    state.seen = created;
  });
  return absl::OkStatus();
}

// Nobody has been told of the round, so its name is free as soon as the leaves have erased it.
void TreeRounds::Withdraw(TreeRound& round, const RoundSnapshot& own) {
  // Leaves that were not asked, and one that has a round of this name already, keep what they have.
  for (const Leaf& other : own.spec.tree.leaves) {
    Change(round, other.id, [](LeafState& state) {
      if (!state.created) state.ended = state.erased = true;
    });
  }
  const absl::Status withdrawn = engine_.WithdrawRound(round.name);
  if (!withdrawn.ok()) {
    options_.log("a round that a leaf has refused cannot be withdrawn; delete it", round.name,
                 std::string(withdrawn.message()));
  }
  WakeAll(round);
}

}  // namespace sparseagg
