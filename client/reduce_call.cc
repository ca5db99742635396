#include "client/reduce_call.h"

#include <grpcpp/client_context.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/result_reader.h"
#include "client/transport/call.h"
#include "client/wire/encoded_update.h"
#include "proto/convert.h"

namespace sparseagg::client {
namespace {

using Stream = grpc::ClientReaderWriterInterface<v1::ReduceRequest, v1::ReduceResponse>;

bool SendStart(Stream& stream, const ReduceRequest& request, bool server_knows_packed) {
  v1::ReduceRequest message;
  v1::ReduceStart* start = message.mutable_start();
  for (const TensorSpec& tensor : request.tensors) {
    *start->mutable_spec()->add_tensors() = ToProto(tensor);
  }
  start->set_layout(request.dense ? v1::RESULT_LAYOUT_DENSE : v1::RESULT_LAYOUT_SPARSE);
  if (server_knows_packed) start->set_encoding("coo.packed");
  return stream.Write(message);
}

// Returns false if the stream is broken; Finish() returns the reason.
bool SendUpdate(Stream& stream, EncodedUpdate update, const ClientOptions& options) {
  v1::ReduceRequest message;
  const uint64_t total = update.total_bytes();
  if (total <= options.unary_bytes_max) {
    *message.mutable_update() = ToRequest(std::move(update));
    return stream.Write(message);
  }
  *message.mutable_begin() = ToBegin(update);
  if (!stream.Write(message)) return false;
  for (uint64_t offset = 0; offset < total; offset += message.chunk().data().size()) {
    message.mutable_chunk()->set_update_id(update.update_id);
    message.mutable_chunk()->set_offset(offset);
    message.mutable_chunk()->set_data(update.Bytes(offset, options.chunk_bytes));
    if (!stream.Write(message)) return false;
  }
  return true;
}

// Returns an error of request.update(); OK if everything was sent or the stream broke.
absl::Status SendAll(Stream& stream, const ReduceRequest& request, const ClientOptions& options,
                     bool server_knows_packed) {
  if (!SendStart(stream, request, server_knows_packed)) return absl::OkStatus();
  for (uint64_t i = 0; i < request.num_updates; ++i) {
    SPARSEAGG_ASSIGN_OR_RETURN(Update update, request.update(i));
    // The id assigns chunks to updates, so equal updates must not share one.
    if (update.update_id.empty()) update.update_id = absl::StrCat("u", i);
    // The contributor seeds stochastic rounding.
    if (update.contributor.empty()) update.contributor = update.update_id;
    SPARSEAGG_ASSIGN_OR_RETURN(EncodedUpdate encoded, Encode("", update, server_knows_packed));
    if (!SendUpdate(stream, std::move(encoded), options)) return absl::OkStatus();
  }
  stream.WritesDone();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Result> ReduceOnce(v1::AggregationService::StubInterface& stub, const Caller& caller,
                                  const ReduceRequest& request, uint64_t timeout_ms,
                                  bool server_knows_packed) {
  grpc::ClientContext context;
  SPARSEAGG_RETURN_IF_ERROR(Prepare(context, caller, timeout_ms));
  const std::unique_ptr<Stream> stream = stub.Reduce(&context);
  ResultReader reader(caller.options.result_bytes_max, request.progress);
  absl::Status status = SendAll(*stream, request, caller.options, server_knows_packed);
  v1::ReduceResponse message;
  while (status.ok() && stream->Read(&message)) {
    status = message.has_header() ? reader.Start(message.header()) : reader.Append(message.chunk());
  }
  if (!status.ok()) {
    context.TryCancel();
    stream->Finish();
    return status;
  }
  SPARSEAGG_RETURN_IF_ERROR(ToStatus(stream->Finish(), caller.route));
  return std::move(reader).Finish();
}

}  // namespace sparseagg::client
