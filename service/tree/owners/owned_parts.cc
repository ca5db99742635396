#include "service/tree/owners/owned_parts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/names.h"
#include "service/tree/receive_partial.h"

namespace sparseagg {

OwnedParts::OwnedParts(OwnerOptions options, Engine& engine, const UpdateStore& store)
    : options_(std::move(options)), engine_(engine), store_(store) {
  for (const Leaf& peer : options_.peers) {
    links_[peer.id] = options_.connect(peer);
    backoffs_[peer.id];
  }
}

absl::Status OwnedParts::CheckTree(const RoundTree& tree) const {
  if (!tree.owners && !tree.part.has_value()) return absl::OkStatus();
  for (const Leaf& leaf : tree.leaves) {
    if (links_.contains(leaf.id)) continue;
    return MakeError(absl::StatusCode::kFailedPrecondition, "UNKNOWN_PEER",
                     absl::StrCat("leaf ", Quoted(leaf.id),
                                  " is none of the peers of this server, so it cannot own rows "
                                  "of the round's result; start it with all leaves as peers"));
  }
  return absl::OkStatus();
}

std::vector<std::string> OwnedParts::PeerIds() const {
  std::vector<std::string> ids;
  for (const auto& [id, link] : links_) ids.push_back(id);
  return ids;
}

void OwnedParts::Wake() {
  const std::lock_guard lock(mutex_);
  for (auto& [peer, backoff] : backoffs_) backoff.Wake();
}

void OwnedParts::Cancel() {
  for (const auto& [peer, link] : links_) link->Cancel();
}

Backoff::Time OwnedParts::Work(const std::string& peer) {
  const auto now = Backoff::Time::clock::now;
  uint64_t wakes = 0;
  {
    const std::lock_guard lock(mutex_);
    const Backoff& backoff = backoffs_.at(peer);
    if (backoff.due() > now()) return backoff.due();
    wakes = backoff.wakes();
  }
  bool again = false;
  for (const RoundSnapshot& round : OpenRounds()) {
    again = Take(round, peer) || again;
    EndIfLate(round);  // of all peers: a call to one may take long
  }
  const std::lock_guard lock(mutex_);
  Backoff& backoff = backoffs_.at(peer);
  if (again) {
    backoff.Double(wakes, now(), options_.shortest_pause, options_.longest_pause);
  } else {
    backoff.Wait(wakes, now(), options_.idle_pause);
  }
  return backoff.due();
}

std::vector<RoundSnapshot> OwnedParts::OpenRounds() {
  std::vector<RoundSnapshot> rounds = engine_.ListRounds("", SIZE_MAX);
  std::erase_if(rounds, [](const RoundSnapshot& round) {
    return round.state != RoundState::kOpen || !round.spec.tree.part.has_value();
  });
  std::ranges::sort(rounds, {}, [](const RoundSnapshot& round) {
    return std::pair(round.create_time, round.spec.tree.part->round);
  });
  const std::lock_guard lock(mutex_);
  std::erase_if(asked_, [&](const auto& kept) {
    return std::ranges::none_of(rounds, [&](const RoundSnapshot& round) {
      return QualifiedName(round.tenant, round.name) == kept.first;
    });
  });
  return rounds;
}

bool OwnedParts::IsCounted(const RoundSnapshot& round, const std::string& leaf) const {
  return store_.Find(QualifiedName(round.tenant, round.name), LeafSender(leaf)).has_value();
}

bool OwnedParts::Take(const RoundSnapshot& round, const std::string& peer) {
  const RoundTree& tree = round.spec.tree;
  const std::string name = QualifiedName(round.tenant, round.name);
  const bool is_leaf = std::ranges::find(tree.leaves, peer, &Leaf::id) != tree.leaves.end();
  if (is_leaf && !IsCounted(round, peer)) {
    LeafLink& link = *links_.at(peer);
    LeafPartial partial;
    absl::Status own;
    NoteAsked(name, peer);
    const absl::Status received = ReceivePartial(
        engine_, link,
        {.to = name, .leaf = peer, .from = tree.part->round, .rows = tree.part->rows}, partial,
        [&](uint64_t) {
          const std::lock_guard lock(mutex_);
          heard_[peer] = options_.now();
        },
        own);
    if (!received.ok()) return NoteFailure(round, peer, received);
    if (!own.ok() && !IsCounted(round, peer)) {
      LogError(round, peer, own);
      if (!IsRefusedForGood(own)) return true;
      Fail(round,
           absl::StrCat("PARTIAL_REFUSED: leaf \"", peer, "\": ", std::string(own.message())));
      return false;
    }
  }
  const bool is_complete =
      std::ranges::all_of(tree.leaves, [&](const Leaf& leaf) { return IsCounted(round, leaf.id); });
  return is_complete && !engine_.SealRound(name).ok();
}

void OwnedParts::NoteAsked(const std::string& round, const std::string& leaf) {
  const std::lock_guard lock(mutex_);
  asked_[round].try_emplace(leaf, options_.now());
}

void OwnedParts::EndIfLate(const RoundSnapshot& round) {
  const std::optional<std::chrono::milliseconds> wait = round.spec.policy.leaf_wait;
  if (!wait.has_value()) return;
  std::string failure;
  for (const Leaf& leaf : round.spec.tree.leaves) {
    if (IsCounted(round, leaf.id)) continue;
    const std::lock_guard lock(mutex_);
    const auto& asked = asked_[QualifiedName(round.tenant, round.name)];
    const auto since = asked.find(leaf.id);
    if (since == asked.end()) continue;  // its thread is still busy with earlier rounds
    if (options_.now() - std::max(since->second, heard_[leaf.id]) < *wait) continue;
    const std::string& error = errors_[leaf.id];
    failure =
        absl::StrCat("LEAF_LOST: leaf \"", leaf.id, "\" sends this owner nothing for leaf_wait",
                     error.empty() ? "" : ": ", error);
  }
  if (!failure.empty()) Fail(round, failure);
}

// A leaf that has no longer its round, or has aborted it, will not have it again. One that has just
// started may have to publish it first.
bool OwnedParts::NoteFailure(const RoundSnapshot& round, const std::string& peer,
                             const absl::Status& failed) {
  const std::string reason = ErrorReason(failed);
  const bool is_lost =
      absl::IsNotFound(failed) || reason == "RESULT_NOT_PARTIAL" ||
      (reason == "ROUND_NOT_PUBLISHED" && ErrorMetadata(failed)["state"] != "SEALED");
  LogError(round, peer, failed);
  if (!is_lost) return true;
  Fail(round, absl::StrCat("LEAF_LOST: leaf \"", peer, "\": ", std::string(failed.message())));
  return false;
}

void OwnedParts::LogError(const RoundSnapshot& round, const std::string& peer,
                          const absl::Status& failed) {
  const std::string error(failed.message());
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(errors_[peer], error) == error) return;
  }
  options_.log("a peer does not send its rows", round.name, absl::StrCat(peer, ": ", error));
}

void OwnedParts::Fail(const RoundSnapshot& round, const std::string& failure) {
  options_.log("a part of a divided result is lost", round.name, failure);
  engine_.FailRound(QualifiedName(round.tenant, round.name), failure).IgnoreError();
}

}  // namespace sparseagg
