#include "service/tree/tree_rounds.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rendezvous.h"
#include "base/status.h"
#include "service/engine/names.h"
#include "service/engine/partial/partial_body.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kRetryAfterMs = 500;

absl::Status About(const std::string& leaf, const absl::Status& status) {
  return MakeError(status.code(), ErrorReason(status),
                   absl::StrCat("leaf \"", leaf, "\": ", std::string(status.message())));
}

std::chrono::system_clock::time_point InMilliseconds(std::chrono::system_clock::time_point time) {
  return std::chrono::time_point_cast<milliseconds>(time);
}

// The same for each repetition, and another for another round of the name.
std::string RequestIdOf(const RoundSnapshot& own) {
  const uint64_t hash = RendezvousHash(own.epoch.store_id, own.name)
                            .Weight(absl::StrCat(own.create_time.time_since_epoch().count()));
  return absl::StrCat("tree-", absl::Hex(hash, absl::kZeroPad16));
}

}  // namespace

TreeRounds::TreeRounds(TreeOptions options, Engine& engine, const UpdateStore& store,
                       TaskRowStore* rows)
    : options_(std::move(options)),
      engine_(engine),
      store_(store),
      rows_(rows),
      start_(options_.now()) {
  const std::lock_guard lock(mutex_);
  for (const Leaf& leaf : options_.leaves) ServerLocked(leaf);
}

// --- What is tracked ---

absl::Status TreeRounds::Recover() {
  if (rows_ != nullptr) {
    std::vector<TaskRow> rows;
    SPARSEAGG_RETURN_IF_ERROR(rows_->ReadTaskRows([&](TaskRow row) {
      if (row.key.starts_with(kTreeRowPrefix)) rows.push_back(std::move(row));
    }));
    for (const TaskRow& stored : rows) {
      const std::string name(RoundOfTreeRow(stored.key));
      std::optional<TreeRow> row;
      if (stored.value.has_value()) row = ReadTreeRow(*stored.value);
      if (!row.has_value()) {
        options_.log("the stored state of a round's leaves is damaged", name,
                     "seal the round again");
        continue;  // the round itself has its leaves
      }
      const std::lock_guard lock(mutex_);
      TrackLocked(name, *std::move(row));
    }
  }
  for (const RoundSnapshot& round : engine_.ListRounds("", SIZE_MAX)) {
    if (!round.spec.tree.is_root()) continue;
    const std::lock_guard lock(mutex_);
    TrackLocked(QualifiedName(round.tenant, round.name), {.leaves = round.spec.tree.leaves});
  }
  return absl::OkStatus();
}

std::shared_ptr<TreeRounds::TreeRound> TreeRounds::TrackLocked(const std::string& name,
                                                               TreeRow row) {
  auto& round = rounds_[name];
  if (round != nullptr) return round;
  round = std::make_shared<TreeRound>();
  round->name = name;
  round->row = std::move(row);
  for (const Leaf& leaf : round->row.leaves) {
    round->leaves[leaf.id] = {.leaf = leaf, .created = round->row.opened};
    ServerLocked(leaf);
  }
  return round;
}

// A configured leaf has the configured address, also in rounds that were opened with another.
TreeRounds::Server& TreeRounds::ServerLocked(const Leaf& leaf) {
  Server& server = servers_[leaf.id];
  if (server.link == nullptr) {
    const auto configured = std::ranges::find(options_.leaves, leaf.id, &Leaf::id);
    server.leaf = configured == options_.leaves.end() ? leaf : *configured;
    server.link = options_.connect(server.leaf);
    server.answered = start_;
  }
  return server;
}

std::shared_ptr<LeafLink> TreeRounds::LinkTo(const std::string& leaf) {
  const std::lock_guard lock(mutex_);
  return servers_.at(leaf).link;
}

std::shared_ptr<TreeRounds::TreeRound> TreeRounds::Find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = rounds_.find(name);
  return found == rounds_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<TreeRounds::TreeRound>> TreeRounds::All() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<TreeRound>> rounds;
  for (const auto& [name, round] : rounds_) rounds.push_back(round);
  return rounds;
}

std::vector<std::string> TreeRounds::LeafIds() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& [id, server] : servers_) ids.push_back(id);
  return ids;
}

absl::Status TreeRounds::Store(const TreeRound& round, bool more_work) {
  if (rows_ == nullptr) return absl::OkStatus();
  TaskRow row = {.key = TreeRowKey(round.name), .value = std::nullopt};
  {
    const std::lock_guard lock(mutex_);
    row.value = WriteTreeRow(round.row);
  }
  return rows_->PutTaskRows({&row, 1}, more_work);
}

absl::Status TreeRounds::Note(const std::string& leaf, absl::Status outcome) {
  const std::lock_guard lock(mutex_);
  Server& server = servers_.at(leaf);
  server.up = !IsSilence(outcome);
  if (server.up) server.answered = options_.now();
  server.error = outcome.ok() ? "" : std::string(outcome.message());
  return outcome;
}

// --- Opening ---

absl::Status TreeRounds::CheckArgs(const CreateRoundArgs& args) const {
  const auto invalid = [](std::string_view reason, std::string_view message) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason, message);
  };
  const RoundTree& tree = args.spec.tree;
  if (tree.is_root()) {
    return invalid("INVALID_SPEC", "tree.leaves is set by a server that was started with leaves");
  }
  if (!tree.leaves.empty() && !options_.leaves.empty()) {
    return invalid("INVALID_SPEC", "this server has leaves, so it cannot be a leaf itself");
  }
  if (!tree.leaves.empty() && !args.spec.publish_partial) {
    return invalid("INVALID_SPEC", "the round of a leaf has publish_partial");
  }
  if (options_.leaves.empty()) {
    if (!args.spec.policy.leaf_wait.has_value()) return absl::OkStatus();
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
  args.spec.tree = {.leaves = options_.leaves, .self = ""};
  SPARSEAGG_RETURN_IF_ERROR(CheckNameIsFree(args));
  SPARSEAGG_ASSIGN_OR_RETURN(const RoundSnapshot own, engine_.CreateRound(args));
  const std::string name = QualifiedName(args.tenant, own.name);
  std::shared_ptr<TreeRound> round;
  {
    const std::lock_guard lock(mutex_);
    round = TrackLocked(name, {.leaves = own.spec.tree.leaves});
  }
  SPARSEAGG_RETURN_IF_ERROR(Store(*round, true));
  for (const Leaf& leaf : own.spec.tree.leaves) {
    if (StateOf(*round, leaf.id).created) continue;
    const absl::Status created = CreateAt(*round, leaf.id, own);
    if (created.ok()) continue;
    if (IsSilence(created) || RetryAfterMs(created) > 0) {
      return WithRetryAfter(
          MakeError(absl::StatusCode::kUnavailable, "LEAF_UNAVAILABLE",
                    absl::StrCat("leaf \"", leaf.id, "\" of round \"", own.name,
                                 "\" does not answer; try again with the same request_id: ",
                                 std::string(created.message()))),
          kRetryAfterMs);
    }
    // Leaves that were not asked, and one that has a round of this name already, keep what they have.
    for (const Leaf& other : own.spec.tree.leaves) {
      if (StateOf(*round, other.id).created) continue;
      Change(*round, other.id, [](LeafState& state) { state.ended = state.erased = true; });
    }
    engine_.AbortRound(name).IgnoreError();
    engine_.DeleteRound(name).IgnoreError();
    return About(leaf.id, created);
  }
  {
    const std::lock_guard lock(mutex_);
    round->row.opened = true;
  }
  SPARSEAGG_RETURN_IF_ERROR(Store(*round, true));
  return Shown(own);
}

absl::Status TreeRounds::CreateAt(TreeRound& round, const std::string& leaf,
                                  const RoundSnapshot& own) {
  CreateRoundArgs args;
  args.round_id = own.name.substr(kRoundPrefix.size());
  args.request_id = RequestIdOf(own);
  args.spec.tensors = own.spec.tensors;
  args.spec.durability = own.spec.durability;
  args.spec.publish_partial = true;
  args.spec.tree = {.leaves = own.spec.tree.leaves, .self = leaf};
  SPARSEAGG_ASSIGN_OR_RETURN(const LeafRound created, Note(leaf, LinkTo(leaf)->Create(args)));
  Change(round, leaf, [&](LeafState& state) {
    state.created = true;
    state.contributors = created.contributors;
  });
  return absl::OkStatus();
}

// --- Sealing ---

absl::StatusOr<RoundSnapshot> TreeRounds::Seal(std::string_view name) {
  const std::shared_ptr<TreeRound> round = Find(name);
  if (round == nullptr) return engine_.SealRound(name);
  SPARSEAGG_ASSIGN_OR_RETURN(const RoundSnapshot own, engine_.GetRound(name));
  if (own.state != RoundState::kOpen) return engine_.SealRound(name);
  {
    const std::lock_guard lock(mutex_);
    if (round->row.sealing.has_value()) return own;
  }
  SPARSEAGG_RETURN_IF_ERROR(CheckMinimum(*round, own));
  SPARSEAGG_RETURN_IF_ERROR(BeginSeal(*round));
  return own;
}

// The counts only grow, so what is enough now stays enough.
absl::Status TreeRounds::CheckMinimum(TreeRound& round, const RoundSnapshot& own) {
  const uint64_t minimum = own.spec.policy.min_contributors;
  if (minimum == 0) return absl::OkStatus();
  for (const auto& [leaf, state] : round.leaves) {
    const auto now = Note(leaf, LinkTo(leaf)->Get(own.name));
    if (now.ok()) Change(round, leaf, [&](LeafState& s) { s.contributors = now->contributors; });
  }
  const uint64_t contributors = ContributorsOf(round);
  if (contributors >= minimum) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, "INSUFFICIENT_CONTRIBUTORS",
                   absl::StrCat("round \"", own.name, "\" has ", contributors, " of at least ",
                                minimum, " contributors; wait for more, or abort it"));
}

absl::Status TreeRounds::BeginSeal(TreeRound& round) {
  {
    const std::lock_guard lock(mutex_);
    if (round.row.sealing.has_value()) return absl::OkStatus();
    round.row.sealing = InMilliseconds(options_.now());
  }
  const absl::Status stored = Store(round, false);
  if (!stored.ok()) {
    const std::lock_guard lock(mutex_);
    round.row.sealing.reset();
  }
  return stored;
}

uint64_t TreeRounds::ContributorsOf(const TreeRound& round) const {
  const std::lock_guard lock(mutex_);
  uint64_t contributors = 0;
  for (const auto& [leaf, state] : round.leaves) contributors += state.contributors;
  return contributors;
}

RoundSnapshot TreeRounds::Shown(RoundSnapshot snapshot) const {
  if (!snapshot.spec.tree.is_root()) return snapshot;
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
  return snapshot;
}

// --- All leaves ---

void TreeRounds::Tick() {
  for (const std::shared_ptr<TreeRound>& round : All()) TickRound(*round);
}

void TreeRounds::TickRound(TreeRound& round) {
  const Time now = options_.now();
  const absl::StatusOr<RoundSnapshot> own = engine_.GetRound(round.name);
  if (absl::IsNotFound(own.status())) {
    {
      const std::lock_guard lock(mutex_);
      const bool erased =
          std::ranges::all_of(round.leaves, [](const auto& entry) { return entry.second.erased; });
      if (!erased) return;
    }
    const TaskRow row = {.key = TreeRowKey(round.name), .value = std::nullopt};
    if (rows_ != nullptr && !rows_->PutTaskRows({&row, 1}, false).ok()) return;
    const std::lock_guard lock(mutex_);
    rounds_.erase(round.name);
    return;
  }
  if (!own.ok() || own->state != RoundState::kOpen) return;
  bool sealing = false;
  bool lost = false;
  {
    const std::lock_guard lock(mutex_);
    sealing = round.row.sealing.has_value();
    lost = std::ranges::any_of(round.leaves, [](const auto& entry) { return entry.second.lost; });
  }
  if (lost && !own->spec.policy.leaf_wait.has_value()) {
    options_.log("a round is aborted", round.name,
                 "a leaf has lost its round, and leaf_wait is not set");
    engine_.AbortRound(round.name).IgnoreError();
    return;
  }
  if (sealing) {
    Finish(round, *own, now);
  } else {
    ApplyPolicy(round, *own, now);
  }
}

void TreeRounds::ApplyPolicy(TreeRound& round, const RoundSnapshot& own, Time now) {
  const RoundPolicy& policy = own.spec.policy;
  bool close = own.close_time.has_value() && now >= *own.close_time;
  if (policy.goal_contributors > 0 && ContributorsOf(round) >= policy.goal_contributors) {
    bool is_new = false;
    {
      const std::lock_guard lock(mutex_);
      is_new = !round.row.goal_reached.has_value();
      if (is_new) round.row.goal_reached = InMilliseconds(now);
      close = close || now - *round.row.goal_reached >= policy.grace;
    }
    if (is_new && !close) Store(round, false).IgnoreError();  // a restart begins the grace again
  }
  if (close) BeginSeal(round).IgnoreError();  // the next tick repeats it
}

void TreeRounds::Finish(TreeRound& round, const RoundSnapshot& own, Time now) {
  const std::optional<milliseconds> wait = own.spec.policy.leaf_wait;
  bool done = true;
  for (const Leaf& leaf : own.spec.tree.leaves) {
    if (IsCounted(round, leaf.id)) continue;
    const LeafState state = StateOf(round, leaf.id);
    Time since = state.progress;
    {
      const std::lock_guard lock(mutex_);
      since = std::max(since, *round.row.sealing);
    }
    const bool is_late = wait.has_value() && (state.lost || now - since >= *wait);
    if (!is_late || !GiveUp(round, leaf.id, own.spec).ok()) done = false;
  }
  if (!done) return;
  const absl::StatusOr<RoundSnapshot> sealed = engine_.SealRound(round.name);
  if (ErrorReason(sealed.status()) != "INSUFFICIENT_CONTRIBUTORS") return;
  options_.log("a round is aborted", round.name, std::string(sealed.status().message()));
  engine_.AbortRound(round.name).IgnoreError();
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
  const std::lock_guard lock(mutex_);
  ++servers_.at(leaf).given_up;
  return absl::OkStatus();
}

std::vector<LeafStatus> TreeRounds::Leaves() const {
  const std::lock_guard lock(mutex_);
  const Time now = options_.now();
  std::vector<LeafStatus> leaves;
  for (const auto& [id, server] : servers_) {
    LeafStatus& status = leaves.emplace_back();
    status.leaf = server.leaf;
    status.up = server.up;
    status.silent_for =
        std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(now - server.answered));
    status.error = server.error;
    for (const auto& [name, round] : rounds_) {
      const auto found = round->leaves.find(id);
      if (found != round->leaves.end() && found->second.created) ++status.rounds;
    }
    status.partial_bytes = server.partial_bytes;
    status.given_up = server.given_up;
  }
  return leaves;
}

void TreeRounds::Cancel() {
  const std::lock_guard lock(mutex_);
  for (auto& [id, server] : servers_) server.link->Cancel();
}

}  // namespace sparseagg
