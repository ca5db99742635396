// How a root receives the partial aggregate of a leaf into its own round.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/names.h"
#include "service/tree/receive_partial.h"
#include "service/tree/tree_rounds.h"

namespace sparseagg {
Backoff::Time TreeRounds::Transfer(const std::string& leaf) {
  return ForEachDue(leaf, &LeafState::transfer,
                    [&](TreeRound& round) { return TransferRound(round, leaf); });
}

std::optional<TreeRounds::Next> TreeRounds::TransferRound(TreeRound& round,
                                                          const std::string& leaf) {
  if (IsDividing(round)) return HashParts(round, leaf);
  LeafState state;
  {
    const std::lock_guard lock(mutex_);
    LeafState& now = round.leaves.at(leaf);
    if (!now.published || now.transferred || std::exchange(now.transferring, true)) {
      return std::nullopt;
    }
    if (now.queued.has_value()) {
      now.silent_since += options_.steady_now() - *std::exchange(now.queued, std::nullopt);
    }
    state = now;
  }
  const std::optional<Next> next = TransferPublished(round, leaf, state);
  Change(round, leaf, [](LeafState& now) { now.transferring = false; });
  return next;
}

std::optional<TreeRounds::Next> TreeRounds::TransferPublished(TreeRound& round,
                                                              const std::string& leaf,
                                                              const LeafState& state) {
  if (!IsAwaited(round, leaf)) return EndTransfer(round, leaf);
  LeafPartial partial;
  absl::Status own;
  const absl::Status failed = Note(round, leaf, Receive(round, leaf, state, partial, own));
  if (!own.ok()) return NoteRefusal(round, leaf, own);
  if (!failed.ok()) {
    // SealAt() finds out whether the leaf still has the round.
    Change(round, leaf, [](LeafState& now) {
      now.published = false;
      now.work.Wake();
    });
    options_.on_work();
    return Repeat();
  }
  Change(round, leaf, [&](LeafState& now) { now.server->partial_bytes += partial.bytes; });
  return EndTransfer(round, leaf);
}

bool TreeRounds::IsAwaited(const TreeRound& round, const std::string& leaf) const {
  const absl::StatusOr<RoundSnapshot> own = engine_.GetRound(round.name);
  return own.ok() && own->state == RoundState::kOpen && !IsCounted(round, leaf);
}

std::optional<TreeRounds::Next> TreeRounds::EndTransfer(TreeRound& round, const std::string& leaf) {
  Change(round, leaf, [](LeafState& state) { state.transferred = true; });
  WakeTick(round);
  return std::nullopt;
}

// The root of a divided result takes only the names of the updates; the owners take the rows.
absl::Status TreeRounds::Receive(TreeRound& round, const std::string& leaf, const LeafState& state,
                                 LeafPartial& partial, absl::Status& own) {
  const PartialTransfer transfer = {.to = round.name,
                                    .leaf = leaf,
                                    .from = std::string(PublicName(round.name)),
                                    .rows = RowsTaken(round),
                                    .likely = state.received};
  absl::Status received = ReceivePartial(
      engine_, *state.server->link, transfer, partial,
      [&](uint64_t end) { NoteReceived(round, leaf, end, end == partial.bytes); }, own);
  Change(round, leaf, [](LeafState& now) { now.is_here = false; });
  return received;
}

std::optional<RowRange> TreeRounds::RowsTaken(const TreeRound& round) const {
  const std::lock_guard lock(mutex_);
  return round.row.parts.empty() ? std::nullopt : std::optional(kNoRows);
}

// Bytes that are sent again are no progress.
void TreeRounds::NoteReceived(TreeRound& round, const std::string& leaf, uint64_t end,
                              bool is_all) {
  Change(round, leaf, [&](LeafState& state) {
    state.is_here = is_all;
    if (end <= state.received) return;
    state.received = end;
    state.silent_since = state.server->sent = options_.steady_now();
  });
}

std::optional<TreeRounds::Next> TreeRounds::NoteRefusal(TreeRound& round, const std::string& leaf,
                                                        const absl::Status& refusal) {
  if (!IsAwaited(round, leaf)) return EndTransfer(round, leaf);  // the refusal says so
  const bool is_for_good = IsRefusedForGood(refusal);
  Change(round, leaf, [&](LeafState& state) {
    state.server->error = absl::StrCat("the root does not take its partial aggregate: ",
                                       std::string(refusal.message()));
    if (is_for_good) state.refusal = std::string(refusal.message());
  });
  if (!is_for_good) return Repeat();
  options_.log("a partial aggregate is refused", round.name,
               absl::StrCat(leaf, ": ", std::string(refusal.message())));
  return EndTransfer(round, leaf);
}

}  // namespace sparseagg
