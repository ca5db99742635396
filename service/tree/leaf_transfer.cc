// How a root receives the partial aggregate of a leaf into its own round.
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/engine/names.h"
#include "service/engine/partial/partial_body.h"
#include "service/tree/tree_rounds.h"

namespace sparseagg {
namespace {

// Returns whether the own round will refuse the same partial aggregate again.
bool IsForGood(const absl::Status& refusal) {
  if (RetryAfterMs(refusal) > 0) return false;
  // The same upload was in use elsewhere, or the own store is damaged.
  const std::string reason = ErrorReason(refusal);
  if (reason == "OFFSET_MISMATCH" || reason == "STORE_CORRUPT") return false;
  return absl::IsInvalidArgument(refusal) || absl::IsResourceExhausted(refusal) ||
         absl::IsAlreadyExists(refusal) || absl::IsFailedPrecondition(refusal) ||
         absl::IsOutOfRange(refusal) || absl::IsDataLoss(refusal) || absl::IsUnimplemented(refusal);
}

}  // namespace

Backoff::Time TreeRounds::Transfer(const std::string& leaf) {
  return ForEachDue(leaf, &LeafState::transfer,
                    [&](TreeRound& round) { return TransferRound(round, leaf); });
}

std::optional<TreeRounds::Next> TreeRounds::TransferRound(TreeRound& round,
                                                          const std::string& leaf) {
  LeafState state;
  {
    const std::lock_guard lock(mutex_);
    LeafState& now = round.leaves.at(leaf);
    if (!now.published || now.transferred || std::exchange(now.transferring, true)) {
      return std::nullopt;
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

absl::Status TreeRounds::Receive(TreeRound& round, const std::string& leaf, const LeafState& state,
                                 LeafPartial& partial, absl::Status& own) {
  std::shared_ptr<Upload> upload;
  const auto begin = [&](const LeafPartial& header) -> absl::StatusOr<uint64_t> {
    partial = header;
    auto begun = engine_.BeginUpload({.round = round.name,
                                      .contributor = LeafSender(leaf),
                                      .update_id = absl::BytesToHexString(header.digest)},
                                     {PartialHeader(header.bytes)});
    own = begun.status();
    if (!own.ok()) return own;
    upload = *std::move(begun);
    return upload->committed_offset();
  };
  const auto append = [&](uint64_t offset, std::string_view bytes) -> absl::Status {
    own = upload->Append(offset, bytes, std::nullopt);
    if (own.ok()) NoteReceived(round, leaf, offset + bytes.size());
    return own;
  };
  const absl::Status read = state.server->link->ReadPartial(std::string(PublicName(round.name)),
                                                            state.received, begin, append);
  if (!own.ok()) return absl::OkStatus();
  SPARSEAGG_RETURN_IF_ERROR(read);
  if (upload->committed_offset() < upload->total_bytes()) {
    return MakeError(absl::StatusCode::kUnavailable, "CONNECTION_LOST",
                     "the leaf ended its partial aggregate early");
  }
  own = upload->Finish().status();
  return absl::OkStatus();
}

// Bytes that are sent again are no progress.
void TreeRounds::NoteReceived(TreeRound& round, const std::string& leaf, uint64_t end) {
  Change(round, leaf, [&](LeafState& state) {
    if (end <= state.received) return;
    state.received = end;
    state.progress = options_.now();
  });
}

std::optional<TreeRounds::Next> TreeRounds::NoteRefusal(TreeRound& round, const std::string& leaf,
                                                        const absl::Status& refusal) {
  if (!IsAwaited(round, leaf)) return EndTransfer(round, leaf);  // the refusal says so
  const bool is_for_good = IsForGood(refusal);
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
