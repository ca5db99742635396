#include "service/tree/receive_partial.h"

#include "absl/strings/escaping.h"
#include "base/status.h"
#include "service/engine/partial/partial_body.h"
#include "service/engine/round_tree.h"

namespace sparseagg {

bool IsRefusedForGood(const absl::Status& refusal) {
  if (RetryAfterMs(refusal) > 0) return false;
  // The same upload was in use elsewhere, or the own store is damaged.
  const std::string reason = ErrorReason(refusal);
  if (reason == "OFFSET_MISMATCH" || reason == "STORE_CORRUPT") return false;
  return absl::IsInvalidArgument(refusal) || absl::IsResourceExhausted(refusal) ||
         absl::IsAlreadyExists(refusal) || absl::IsFailedPrecondition(refusal) ||
         absl::IsOutOfRange(refusal) || absl::IsDataLoss(refusal) || absl::IsUnimplemented(refusal);
}

absl::Status ReceivePartial(Engine& engine, LeafLink& link, const PartialTransfer& transfer,
                            LeafPartial& partial,
                            const std::function<void(uint64_t end)>& on_received,
                            absl::Status& own) {
  std::shared_ptr<Upload> upload;
  const auto begin = [&](const LeafPartial& header) -> absl::StatusOr<uint64_t> {
    partial = header;
    auto begun = engine.BeginUpload({.round = transfer.to,
                                     .contributor = LeafSender(transfer.leaf),
                                     .update_id = absl::BytesToHexString(header.digest)},
                                    {PartialHeader(header.bytes)});
    own = begun.status();
    if (!own.ok()) return own;
    upload = *std::move(begun);
    return upload->committed_offset();
  };
  const auto append = [&](uint64_t offset, std::string_view bytes) -> absl::Status {
    own = upload->Append(offset, bytes, std::nullopt);
    if (own.ok()) on_received(offset + bytes.size());
    return own;
  };
  const absl::Status read =
      link.ReadPartial(transfer.from, transfer.rows, transfer.likely, begin, append);
  if (!own.ok()) return absl::OkStatus();
  SPARSEAGG_RETURN_IF_ERROR(read);
  if (upload->committed_offset() < upload->total_bytes()) {
    return MakeError(absl::StatusCode::kUnavailable, "CONNECTION_LOST",
                     "the leaf ended its partial aggregate early");
  }
  own = upload->Finish().status();
  return absl::OkStatus();
}

}  // namespace sparseagg
