// The functions of Client that send updates: one update whole or in chunks, by its size, or many
// small ones together (many_updates.h).
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "client/client_impl.h"
#include "client/many_updates.h"
#include "client/upload.h"

namespace sparseagg::client {

absl::StatusOr<bool> Client::Impl::ServerKnowsPacked() {
  SPARSEAGG_RETURN_IF_ERROR(CheckProcess(caller.process));  // which may have held the lock
  {
    const std::lock_guard lock(mutex);
    if (knows_packed.has_value()) return *knows_packed;
  }
  const absl::StatusOr<ServerInfo> info = Info();
  if (absl::IsUnavailable(info.status()) || absl::IsDeadlineExceeded(info.status())) {
    return info.status();
  }
  const std::lock_guard lock(mutex);
  if (!info.ok()) knows_packed = false;
  return *knows_packed;
}

absl::StatusOr<Receipt> Client::Impl::SubmitWhole(EncodedUpdate update, const Progress& progress) {
  const uint64_t total = update.total_bytes();
  const v1::SubmitUpdateRequest request = ToRequest(std::move(update));
  SPARSEAGG_ASSIGN_OR_RETURN(const v1::Receipt receipt,
                             Unary<v1::Receipt>(transfer(), [&](auto* context, auto* response) {
                               return stub->SubmitUpdate(context, request, response);
                             }));
  if (progress) progress(total, total);
  return FromProto(receipt);
}

absl::StatusOr<Receipt> Client::Impl::SubmitInChunks(const EncodedUpdate& update,
                                                     const Progress& progress) {
  SPARSEAGG_RETURN_IF_ERROR(CheckProcess(caller.process));  // which may have held the lock
  RetryLoop retry(options, transfer());
  const Connections::Lease connection = connections->ForUpload();
  Stub* via = connection.get();
  uint64_t offset = 0;
  for (;;) {
    UploadAttempt attempt = UploadOnce(*via, caller, update, retry.attempt_ms(), progress);
    if (attempt.receipt.ok()) return std::move(attempt.receipt);
    if (attempt.resumed_at > offset) retry.MadeProgress();
    offset = std::max(offset, attempt.resumed_at);
    const absl::Status& status = attempt.receipt.status();
    if (!retry.WaitToRetry(status)) return status;
    if (absl::IsUnavailable(status)) via = stub;  // the wait has reconnected this one
  }
}

absl::StatusOr<Receipt> Client::Submit(const std::string& round, const Update& update,
                                       const Progress& progress) {
  bool knows_packed = true;
  if (update.encoding == kAuto) {
    SPARSEAGG_ASSIGN_OR_RETURN(knows_packed, impl_->ServerKnowsPacked());
  }
  SPARSEAGG_ASSIGN_OR_RETURN(EncodedUpdate encoded, Encode(RoundName(round), update, knows_packed));
  std::vector<TensorEncoding> encodings = encoded.encodings();
  absl::StatusOr<Receipt> receipt = encoded.total_bytes() <= impl_->options.unary_bytes_max
                                        ? impl_->SubmitWhole(std::move(encoded), progress)
                                        : impl_->SubmitInChunks(encoded, progress);
  if (!receipt.ok()) return impl_->Explain(receipt.status(), round);
  receipt->encodings = std::move(encodings);
  impl_->origins.Record(receipt->round, {receipt->durability, receipt->epoch});
  return receipt;
}

std::vector<absl::StatusOr<Receipt>> Client::SubmitMany(const std::string& round,
                                                        std::span<const Update> updates) {
  const bool asks =
      std::ranges::any_of(updates, [](const Update& update) { return update.encoding == kAuto; });
  const absl::StatusOr<bool> knows_packed = asks ? impl_->ServerKnowsPacked() : true;
  if (!knows_packed.ok()) return {updates.size(), knows_packed.status()};

  ManyUpdates many(RoundName(round), updates, *knows_packed, impl_->options.unary_bytes_max);
  RetryLoop retry(impl_->options, impl_->transfer());
  while (many.under_way()) {
    const size_t before = many.answered();
    const absl::Status status = many.SendOnce(*impl_->stub, impl_->caller, retry.attempt_ms());
    if (many.answered() > before) retry.MadeProgress();
    if (!status.ok() && !retry.WaitToRetry(status)) many.GiveUp(status);
  }
  std::vector<absl::StatusOr<Receipt>> outcomes;
  std::optional<absl::Status> lost;  // computed once
  for (auto& outcome : many.TakeOutcomes()) {
    if (!outcome.has_value()) {
      outcomes.push_back(Submit(round, updates[outcomes.size()]));
      continue;
    }
    if (outcome->ok()) {
      impl_->origins.Record((*outcome)->round, {(*outcome)->durability, (*outcome)->epoch});
    } else if (ErrorReason(outcome->status()) == "ROUND_NOT_FOUND") {
      if (!lost.has_value()) lost = impl_->Explain(outcome->status(), round);
      outcome = *lost;
    }
    outcomes.push_back(*std::move(outcome));
  }
  return outcomes;
}

}  // namespace sparseagg::client
