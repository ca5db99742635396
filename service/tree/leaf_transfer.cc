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
  const LeafState state = StateOf(round, leaf);
  if (!state.published || state.transferred) return std::nullopt;
  if (!IsAwaited(round, leaf)) return EndTransfer(round, leaf);
  const auto partial =
      Note(round, leaf, state.server->link->DescribePartial(std::string(PublicName(round.name))));
  absl::Status failed = partial.status();
  absl::Status own;
  if (partial.ok()) {
    failed = Receive(round, leaf, *partial, own);
    if (!failed.ok()) Note(round, leaf, failed).IgnoreError();
  }
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
  Change(round, leaf, [&](LeafState& now) { now.server->partial_bytes += partial->bytes; });
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

absl::Status TreeRounds::Receive(TreeRound& round, const std::string& leaf,
                                 const LeafPartial& partial, absl::Status& own) {
  const UpdateHeader header = {.round = round.name,
                               .contributor = LeafSender(leaf),
                               .update_id = absl::BytesToHexString(partial.digest)};
  auto begun = engine_.BeginUpload(header, {PartialHeader(partial.bytes)});
  own = begun.status();
  if (!own.ok()) return absl::OkStatus();
  Upload& upload = **begun;
  if (upload.committed_offset() < upload.total_bytes()) {
    const absl::Status read =
        LinkTo(round, leaf)
            ->ReadPartial(std::string(PublicName(round.name)), upload.committed_offset(),
                          [&](uint64_t offset, std::string_view bytes) -> absl::Status {
                            own = upload.Append(offset, bytes, std::nullopt);
                            if (own.ok()) NoteReceived(round, leaf, offset + bytes.size());
                            return own;
                          });
    if (!own.ok()) return absl::OkStatus();
    SPARSEAGG_RETURN_IF_ERROR(read);
  }
  if (upload.committed_offset() < upload.total_bytes()) {
    return MakeError(absl::StatusCode::kUnavailable, "CONNECTION_LOST",
                     "the leaf ended its partial aggregate early");
  }
  own = upload.Finish().status();
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
    state.server->error = std::string(refusal.message());
    if (is_for_good) state.refusal = std::string(refusal.message());
  });
  if (!is_for_good) return Repeat();
  options_.log("a partial aggregate is refused", round.name,
               absl::StrCat(leaf, ": ", std::string(refusal.message())));
  return EndTransfer(round, leaf);
}

}  // namespace sparseagg
