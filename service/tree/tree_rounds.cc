#include "service/tree/tree_rounds.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "service/engine/names.h"

namespace sparseagg {

TreeRounds::TreeRounds(TreeOptions options, Engine& engine, const UpdateStore& store,
                       TaskRowStore* rows)
    : options_(std::move(options)),
      engine_(engine),
      store_(store),
      rows_(rows),
      start_(options_.now()),
      has_leaves_(!options_.leaves.empty()) {
  const std::lock_guard lock(mutex_);
  for (const Leaf& leaf : options_.leaves) ServerLocked(leaf);
}

// --- What is tracked ---

absl::Status TreeRounds::Recover() {
  if (rows_ != nullptr) {
    SPARSEAGG_RETURN_IF_ERROR(rows_->ReadTaskRows(kTreeRowPrefix, [&](const TaskRow& stored) {
      const std::string name(RoundOfTreeRow(stored.key));
      std::optional<TreeRow> row;
      if (stored.value.has_value()) row = ReadTreeRow(*stored.value);
      if (!row.has_value()) {
        options_.log("the stored state of a round's leaves is damaged", name,
                     "seal the round again");
        return;  // the round itself has its leaves
      }
      const std::lock_guard lock(mutex_);
      TrackLocked(name, *std::move(row))->is_stored = true;
    }));
  }
  for (const RoundSnapshot& round : engine_.ListRounds("", SIZE_MAX)) {
    if (!round.spec.tree.is_root() || round.spec.tree.part.has_value()) continue;
    const std::lock_guard lock(mutex_);
    TrackLocked(QualifiedName(round.tenant, round.name),
                {.leaves = round.spec.tree.leaves, .id = IdOf(round), .parts = PartsPrefix(round)});
  }
  const std::lock_guard lock(mutex_);
  has_leaves_ = has_leaves_ || !rounds_.empty();
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
    LeafState& state = round->leaves[leaf.id];
    state.server = ServerLocked(leaf);
    state.created = round->row.opened;
    state.silent_since = options_.steady_now();
  }
  return round;
}

bool TreeRounds::IsConfigured(const std::string& leaf) const {
  return std::ranges::find(options_.leaves, leaf, &Leaf::id) != options_.leaves.end();
}

const std::string& TreeRounds::AddressOf(const Leaf& leaf) const {
  const auto configured = std::ranges::find(options_.leaves, leaf.id, &Leaf::id);
  return configured == options_.leaves.end() ? leaf.address : configured->address;
}

absl::Status TreeRounds::WithAddress(const absl::Status& refusal) const {
  if (ErrorReason(refusal) != "WRONG_LEAF") return refusal;
  const auto metadata = ErrorMetadata(refusal);
  const Leaf then = {.id = metadata.at("leaf"), .address = metadata.at("address")};
  const std::string& now = AddressOf(then);
  if (now == then.address) return refusal;
  const std::string text =
      absl::StrReplaceAll(std::string(refusal.message()), {{Quoted(then.address), Quoted(now)}});
  absl::Status moved = MakeError(refusal.code(), "WRONG_LEAF", text);
  for (const auto& [key, value] : metadata) {
    moved = WithMetadata(std::move(moved), key, key == "address" ? now : value);
  }
  return moved;
}

std::shared_ptr<TreeRounds::Server> TreeRounds::ServerLocked(const Leaf& leaf) {
  std::shared_ptr<Server>& server = servers_[leaf.id];
  if (server != nullptr) return server;
  server = std::make_shared<Server>();
  server->leaf = {.id = leaf.id, .address = AddressOf(leaf)};
  server->link = options_.connect(server->leaf);
  server->answered = start_;
  server->heard = options_.steady_now();
  return server;
}

std::shared_ptr<LeafLink> TreeRounds::LinkTo(const TreeRound& round,
                                             const std::string& leaf) const {
  const std::lock_guard lock(mutex_);
  return round.leaves.at(leaf).server->link;
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

absl::Status TreeRounds::Store(TreeRound& round, bool more_work,
                               const std::function<bool(TreeRow&)>& change) {
  const std::lock_guard storing(round.storing);
  TreeRow changed;
  {
    const std::lock_guard lock(mutex_);
    changed = round.row;
    if (!change(changed)) return absl::OkStatus();
  }
  if (rows_ != nullptr) {
    const TaskRow row = {.key = TreeRowKey(round.name), .value = WriteTreeRow(changed)};
    SPARSEAGG_RETURN_IF_ERROR(rows_->PutTaskRows({&row, 1}, more_work));
  }
  const std::lock_guard lock(mutex_);
  round.row = std::move(changed);
  round.is_stored = true;
  return absl::OkStatus();
}

// --- Servers ---

absl::Status TreeRounds::Note(const TreeRound& round, const std::string& leaf,
                              absl::Status outcome) {
  const std::lock_guard lock(mutex_);
  NoteLocked(*round.leaves.at(leaf).server, outcome);
  return outcome;
}

void TreeRounds::NoteLocked(Server& server, const absl::Status& outcome) {
  const Time now = options_.now();
  server.up = !IsSilence(outcome);
  server.asked = now;
  if (server.up) {
    server.answered = now;
    server.heard = options_.steady_now();
  }
  server.error = outcome.ok() ? "" : std::string(outcome.message());
}

void TreeRounds::GreetIfUnasked(const std::string& leaf) {
  std::shared_ptr<Server> server;
  {
    const std::lock_guard lock(mutex_);
    const auto found = servers_.find(leaf);
    if (found == servers_.end()) return;
    server = found->second;
    const Time now = options_.now();
    const Time asked = server->asked.value_or(Time::min());
    if (asked <= now && asked + options_.poll_interval > now) return;  // the clock may go back
  }
  const absl::Status outcome = server->link->Greet();
  const std::lock_guard lock(mutex_);
  NoteLocked(*server, outcome);
}

std::vector<LeafStatus> TreeRounds::Leaves() const {
  const std::lock_guard lock(mutex_);
  const Time now = options_.now();
  std::vector<LeafStatus> leaves;
  for (const auto& [id, server] : servers_) {
    LeafStatus& status = leaves.emplace_back();
    status.leaf = server->leaf;
    status.up = server->up;
    status.silent_for =
        std::max(Milliseconds(0), std::chrono::duration_cast<Milliseconds>(now - server->answered));
    status.error = server->error;
    for (const auto& [name, round] : rounds_) {
      const auto found = round->leaves.find(id);
      if (found != round->leaves.end() && found->second.created) ++status.rounds;
    }
    status.partial_bytes = server->partial_bytes;
    status.given_up = server->given_up;
  }
  return leaves;
}

void TreeRounds::Cancel() {
  is_cancelled_ = true;
  const std::lock_guard lock(mutex_);
  for (auto& [id, server] : servers_) server->link->Cancel();
}

// --- When to look ---

Backoff::Time TreeRounds::ForEachDue(const std::string& leaf, Backoff LeafState::*backoff,
                                     const std::function<std::optional<Next>(TreeRound&)>& work) {
  using Clock = std::chrono::steady_clock;
  Backoff::Time next = Clock::now() + options_.poll_interval;
  for (const std::shared_ptr<TreeRound>& round : All()) {
    uint64_t wakes = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto found = round->leaves.find(leaf);
      if (found == round->leaves.end()) continue;
      const Backoff& state = found->second.*backoff;
      wakes = state.wakes();
      if (state.due() > Clock::now()) {
        next = std::min(next, state.due());
        continue;
      }
    }
    const std::optional<Next> after = work(*round);
    if (!after.has_value()) continue;
    const std::lock_guard lock(mutex_);
    Backoff& state = round->leaves.at(leaf).*backoff;
    if (after->doubles) {
      state.Double(wakes, Clock::now(), options_.shortest_pause, options_.longest_pause);
    } else {
      state.Wait(wakes, Clock::now(), after->pause);
    }
    next = std::min(next, state.due());
  }
  return next;
}

void TreeRounds::WakeTick(TreeRound& round) {
  {
    const std::lock_guard lock(mutex_);
    round.tick.Wake();
  }
  options_.on_work();
}

void TreeRounds::WakeAll(TreeRound& round) {
  {
    const std::lock_guard lock(mutex_);
    round.tick.Wake();
    for (auto& [leaf, state] : round.leaves) state.work.Wake();
  }
  options_.on_work();
}

void TreeRounds::Changed(std::string_view name) {
  if (!has_leaves_) return;
  if (const std::shared_ptr<TreeRound> round = Find(name); round != nullptr) WakeAll(*round);
}

}  // namespace sparseagg
