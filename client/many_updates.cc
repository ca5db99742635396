#include "client/many_updates.h"

#include <grpcpp/client_context.h>

#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/transport/retry.h"
#include "client/wire/encoded_update.h"
#include "client/wire/from_proto.h"
#include "proto/error_details.h"
#include "proto/limits.h"

namespace sparseagg::client {

ManyUpdates::ManyUpdates(std::string round, std::span<const Update> updates,
                         bool server_knows_packed, uint64_t bytes_max)
    : round_(std::move(round)),
      updates_(updates),
      server_knows_packed_(server_knows_packed),
      bytes_max_(bytes_max),
      encodings_(updates.size()),
      outcomes_(updates.size()),
      settled_(updates.size()) {}

absl::Status ManyUpdates::SendOnce(v1::AggregationService::StubInterface& stub,
                                   const Caller& caller, uint64_t timeout_ms) {
  grpc::ClientContext context;
  SPARSEAGG_RETURN_IF_ERROR(Prepare(context, caller, timeout_ms));
  refused_ = absl::OkStatus();
  unanswered_ = 0;
  ended_ = false;
  const size_t answered_before = answered_;
  const std::unique_ptr<Stream> stream = stub.StreamUpdates(&context);
  std::thread reader([this, &stream] {
    v1::StreamUpdatesResponse answer;
    while (stream->Read(&answer)) {
      HandleAnswer(answer);
      for (const v1::StreamUpdatesResponse& other : answer.more()) HandleAnswer(other);
      answers_came_.notify_one();
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    answers_came_.notify_one();
  });
  SendAll(*stream);
  stream->WritesDone();
  reader.join();
  const absl::Status status = ToStatus(stream->Finish(), caller.route);
  if (!status.ok() && answered_ == answered_before) {
    if (std::exchange(one_by_one_, true)) batch_bytes_ /= 2;
  }
  SPARSEAGG_RETURN_IF_ERROR(status);
  if (!refused_.ok() || !under_way()) return refused_;
  return MakeError(absl::StatusCode::kInternal, "PROTOCOL_ERROR",
                   absl::StrCat(caller.route.target,
                                " ended the stream without an answer to every update; is "
                                "it a sparseagg server of this version?"));
}

void ManyUpdates::SendAll(Stream& stream) {
  v1::StreamUpdatesRequest message;
  message.set_takes_more(true);
  size_t bytes = 0;
  const auto send = [&] {
    {
      const std::lock_guard lock(mutex_);
      unanswered_ += message.batch().updates_size();
    }
    const bool sent = bytes == 0 || stream.Write(message);  // if false, Finish() returns the reason
    if (sent && one_by_one_) WaitForAnswers();
    message.clear_batch();
    bytes = 0;
    return sent;
  };
  for (size_t i = 0; i < updates_.size(); ++i) {
    std::optional<v1::SubmitUpdateRequest> request = RequestOf(i);
    if (!request.has_value()) continue;
    const size_t more = request->ByteSizeLong();
    const bool full = bytes + more > batch_bytes_ ||
                      std::cmp_equal(message.batch().updates_size(), kBatchUpdatesMax);
    if (full && !send()) return;
    bytes += more;
    *message.mutable_batch()->add_updates() = *std::move(request);
  }
  send();
}

void ManyUpdates::WaitForAnswers() {
  std::unique_lock lock(mutex_);
  answers_came_.wait(lock, [this] { return unanswered_ == 0 || ended_; });
}

std::optional<v1::SubmitUpdateRequest> ManyUpdates::RequestOf(size_t i) {
  {
    const std::lock_guard lock(mutex_);
    if (settled_[i]) return std::nullopt;
  }
  absl::StatusOr<EncodedUpdate> encoded = Encode(round_, updates_[i], server_knows_packed_);
  const std::lock_guard lock(mutex_);
  if (!encoded.ok()) {
    Settle(i, encoded.status());
    return std::nullopt;
  }
  const size_t owner = by_id_.try_emplace(encoded->update_id, i).first->second;
  if (owner != i || encoded->total_bytes() > bytes_max_) {
    Settle(i, std::nullopt);
    return std::nullopt;
  }
  encodings_[i] = encoded->encodings();
  return ToRequest(*std::move(encoded));
}

void ManyUpdates::HandleAnswer(const v1::StreamUpdatesResponse& answer) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(answer.update_id());
  const absl::Status error =
      answer.has_error() ? sparseagg::FromProto(answer.error()) : absl::OkStatus();
  if (found == by_id_.end()) {
    ended_ = true;  // an error of a whole message, which gets no other answer
    return refused_.Update(error);
  }
  --unanswered_;
  if (IsRetryable(error)) return refused_.Update(error);
  const size_t i = found->second;
  if (settled_[i]) return;  // a second answer to an update that was sent twice
  if (!error.ok()) return Settle(i, error);
  if (!answer.has_receipt()) return;
  Receipt receipt = FromProto(answer.receipt());
  receipt.encodings = std::move(encodings_[i]);
  Settle(i, std::move(receipt));
}

void ManyUpdates::GiveUp(const absl::Status& why) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < updates_.size(); ++i) {
    if (!settled_[i]) Settle(i, why);
  }
}

// REQUIRES: mutex_ is held; update `i` has no outcome.
void ManyUpdates::Settle(size_t i, std::optional<absl::StatusOr<Receipt>> outcome) {
  settled_[i] = true;
  outcomes_[i] = std::move(outcome);
  ++answered_;
}

}  // namespace sparseagg::client
