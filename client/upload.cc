#include "client/upload.h"

#include <grpcpp/client_context.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/transport/call.h"
#include "client/wire/from_proto.h"
#include "proto/error_details.h"

namespace sparseagg::client {
namespace {

using Stream =
    grpc::ClientReaderWriterInterface<v1::StreamUpdatesRequest, v1::StreamUpdatesResponse>;

absl::Status ProtocolError(const std::string& target, const std::string& what) {
  return MakeError(absl::StatusCode::kInternal, "PROTOCOL_ERROR",
                   absl::StrCat(target, " ", what, "; is it a sparseagg server of this version?"));
}

// The receipt or the error of `update_id`; nullopt for any other answer.
std::optional<absl::StatusOr<Receipt>> FinalAnswer(const v1::StreamUpdatesResponse& response,
                                                   const std::string& update_id) {
  if (response.update_id() != update_id) return std::nullopt;
  if (response.has_receipt()) return FromProto(response.receipt());
  if (response.has_error()) {
    absl::Status error = sparseagg::FromProto(response.error());
    // An error with the code OK would count as a receipt.
    return error.ok() ? absl::InternalError("the server sent an error without a code") : error;
  }
  return std::nullopt;
}

// Reads until the update has its answer or the stream ends.
class AnswerReader {
 public:
  AnswerReader(Stream& stream, const std::string& update_id)
      : thread_([this, &stream, &update_id] {
          v1::StreamUpdatesResponse response;
          while (!answered_ && stream.Read(&response)) {
            answer_ = FinalAnswer(response, update_id);
            answered_ = answer_.has_value();
          }
        }) {}

  bool answered() const { return answered_; }
  std::optional<absl::StatusOr<Receipt>> Join() {
    thread_.join();
    return std::move(answer_);
  }

 private:
  std::optional<absl::StatusOr<Receipt>> answer_;
  std::atomic<bool> answered_ = false;
  std::thread thread_;
};

void SendChunks(Stream& stream, const EncodedUpdate& update, uint64_t offset,
                const ClientOptions& options, const AnswerReader& reader,
                const Progress& progress) {
  const uint64_t total = update.total_bytes();
  if (progress) progress(offset, total);
  v1::StreamUpdatesRequest request;
  request.mutable_chunk()->set_update_id(update.update_id);
  while (offset < total && !reader.answered()) {
    request.mutable_chunk()->set_offset(offset);
    request.mutable_chunk()->set_data(update.Bytes(offset, options.chunk_bytes));
    const uint64_t sent = request.chunk().data().size();
    if (!stream.Write(request)) return;  // Finish() returns the reason
    offset += sent;
    if (progress) progress(offset, total);
  }
}

}  // namespace

UploadAttempt UploadOnce(v1::AggregationService::StubInterface& stub, const Caller& caller,
                         const EncodedUpdate& update, uint64_t timeout_ms,
                         const Progress& progress) {
  grpc::ClientContext context;
  if (const absl::Status status = Prepare(context, caller, timeout_ms); !status.ok()) {
    return {status};
  }
  const std::unique_ptr<Stream> stream = stub.StreamUpdates(&context);
  UploadAttempt attempt{absl::InternalError("unset")};
  std::optional<absl::StatusOr<Receipt>> answer;
  std::optional<absl::Status> broken_protocol;

  v1::StreamUpdatesRequest request;
  *request.mutable_begin() = ToBegin(update);
  v1::StreamUpdatesResponse response;
  if (stream->Write(request) && stream->Read(&response)) {
    answer = FinalAnswer(response, update.update_id);
    attempt.resumed_at = response.progress().committed_offset();
    if (!answer.has_value() && !response.has_progress()) {
      broken_protocol = ProtocolError(
          caller.route.target, "answered BeginUpdate with neither progress, receipt nor error");
    } else if (attempt.resumed_at > update.total_bytes()) {
      broken_protocol =
          ProtocolError(caller.route.target, "reported more received bytes than the update has");
    } else if (!answer.has_value()) {
      AnswerReader reader(*stream, update.update_id);
      SendChunks(*stream, update, attempt.resumed_at, caller.options, reader, progress);
      stream->WritesDone();
      answer = reader.Join();
    }
  }
  if (answer.has_value() || broken_protocol.has_value()) {
    // Later messages cannot change the outcome.
    context.TryCancel();
  }
  const absl::Status status = ToStatus(stream->Finish(), caller.route);
  if (answer.has_value()) {
    attempt.receipt = *std::move(answer);
  } else if (broken_protocol.has_value()) {
    attempt.receipt = *broken_protocol;
  } else {
    attempt.receipt = status.ok()
                          ? ProtocolError(caller.route.target, "ended the stream without a receipt")
                          : status;
  }
  return attempt;
}

}  // namespace sparseagg::client
