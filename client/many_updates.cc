#include "client/many_updates.h"

#include <grpcpp/client_context.h>

#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/call.h"
#include "client/encoded_update.h"
#include "client/from_proto.h"
#include "client/retry.h"
#include "proto/error_details.h"
#include "sparse/status.h"

namespace sparseagg::client {
namespace {

constexpr size_t kBatchBytes = size_t{64} << 10;
constexpr int kBatchUpdatesMax = 1000;  // the protocol's limit

}  // namespace

ManyUpdates::ManyUpdates(std::string round, std::span<const Update> updates, bool server_unpacks,
                         uint64_t bytes_max)
    : round_(std::move(round)),
      updates_(updates),
      server_unpacks_(server_unpacks),
      bytes_max_(bytes_max),
      encodings_(updates.size()),
      outcomes_(updates.size()),
      settled_(updates.size()) {}

absl::Status ManyUpdates::SendOnce(v1::AggregationService::StubInterface& stub,
                                   const std::string& target, const ClientOptions& options) {
  grpc::ClientContext context;
  SPARSEAGG_RETURN_IF_ERROR(Prepare(context, options, options.transfer_timeout_ms));
  refused_ = absl::OkStatus();
  const std::unique_ptr<Stream> stream = stub.StreamUpdates(&context);
  std::thread reader([this, &stream] {
    v1::StreamUpdatesResponse answer;
    while (stream->Read(&answer)) {
      Take(answer);
      for (const v1::StreamUpdatesResponse& other : answer.more()) Take(other);
    }
  });
  SendAll(*stream);
  stream->WritesDone();
  reader.join();
  SPARSEAGG_RETURN_IF_ERROR(ToStatus(stream->Finish(), target));
  if (!refused_.ok() || !under_way()) return refused_;
  return MakeError(absl::StatusCode::kInternal, "PROTOCOL_ERROR",
                   absl::StrCat(target,
                                " ended the stream without an answer to every update; is "
                                "it a sparseagg server of this version?"));
}

void ManyUpdates::SendAll(Stream& stream) {
  v1::StreamUpdatesRequest message;
  message.set_takes_more(true);
  size_t bytes = 0;
  const auto send = [&] {
    const bool sent = bytes == 0 || stream.Write(message);  // if not, Finish() says why
    message.clear_batch();
    bytes = 0;
    return sent;
  };
  for (size_t i = 0; i < updates_.size(); ++i) {
    std::optional<v1::SubmitUpdateRequest> request = RequestOf(i);
    if (!request.has_value()) continue;
    const size_t more = request->ByteSizeLong();
    const bool full =
        bytes + more > kBatchBytes || message.batch().updates_size() == kBatchUpdatesMax;
    if (full && !send()) return;
    bytes += more;
    *message.mutable_batch()->add_updates() = *std::move(request);
  }
  send();
}

std::optional<v1::SubmitUpdateRequest> ManyUpdates::RequestOf(size_t i) {
  {
    const std::lock_guard lock(mutex_);
    if (settled_[i]) return std::nullopt;
  }
  absl::StatusOr<EncodedUpdate> encoded = Encode(round_, updates_[i], server_unpacks_);
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

void ManyUpdates::Take(const v1::StreamUpdatesResponse& answer) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(answer.update_id());
  const absl::Status error =
      answer.has_error() ? sparseagg::FromProto(answer.error()) : absl::OkStatus();
  if (found == by_id_.end() || IsRetryable(error)) {
    refused_.Update(error);  // of a message as a whole, or until later
    return;
  }
  const size_t i = found->second;
  if (settled_[i]) return;  // the second answer to an update that was sent twice
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

// REQUIRES: mutex_ held, and not settled.
void ManyUpdates::Settle(size_t i, std::optional<absl::StatusOr<Receipt>> outcome) {
  settled_[i] = true;
  outcomes_[i] = std::move(outcome);
  ++answered_;
}

}  // namespace sparseagg::client
