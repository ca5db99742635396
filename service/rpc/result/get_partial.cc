#include "service/rpc/result/get_partial.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/chunk_head.h"
#include "service/engine/partial/partial_slices.h"
#include "service/engine/partial/round_partial.h"
#include "service/rpc/result/result_writer.h"
#include "service/rpc/stream/unread_limit.h"
#include "service/rpc/wire/message_bytes.h"
#include "service/rpc/wire/round_proto.h"
#include "service/rpc/wire/status_table.h"

namespace sparseagg {
namespace {

using Result = std::shared_ptr<const PublishedResult>;

// The bytes of an answer, which are those of the result or refer to them.
struct Source {
  Result result;
  PartialSlices bytes;
  std::string digest;
};

absl::StatusOr<PartialSlices> BytesOf(const PublishedResult& result,
                                      const v1::GetPartialRequest& request) {
  const std::string_view all = result.partial;
  if (!request.has_rows()) return PartialSlices{.covered = all};  // in one piece
  const RowRange rows = FromProto(request.rows());
  SPARSEAGG_RETURN_IF_ERROR(CheckRowRange(rows, result.spec.tensors));
  return CutPartial(all, rows);
}

absl::StatusOr<std::shared_ptr<const Source>> FindPartial(Engine& engine,
                                                          const v1::GetPartialRequest& request) {
  SPARSEAGG_ASSIGN_OR_RETURN(Result result, engine.Result(request.name()));
  if (!result->spec.publish_partial) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "RESULT_NOT_PARTIAL",
                     absl::StrCat("the result of round \"", request.name(),
                                  "\" is rounded; create the round with publish_partial"));
  }
  SPARSEAGG_ASSIGN_OR_RETURN(PartialSlices bytes, BytesOf(*result, request));
  if (request.offset() > bytes.size()) {
    return MakeError(absl::StatusCode::kInvalidArgument, "OFFSET_MISMATCH",
                     absl::StrCat("the partial aggregate has ", bytes.size(), " bytes; offset ",
                                  request.offset(), " is beyond its end"));
  }
  std::string digest(request.has_rows() ? bytes.digest : PartialDigest(result->partial));
  return std::make_shared<const Source>(
      Source{std::move(result), std::move(bytes), std::move(digest)});
}

// One operation at a time, each started when the one before ends; so no lock.
class GetPartialCall : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                       public DrainableCall,
                       public std::enable_shared_from_this<GetPartialCall> {
 public:
  GetPartialCall(grpc::CallbackServerContext& context, Engine& engine, CallCounter& calls)
      : call_entry_(calls), unread_(context, engine.limits()) {}

  void Begin(DrainList& drain_list, Background& background, Engine& engine,
             const v1::GetPartialRequest& request) {
    self_ = shared_from_this();
    drain_list.Add(self_);
    if (!request.has_rows()) return Open(engine, request);
    // The rows of a range are hashed, which is long work.
    background.Run([this, &engine, request] { Open(engine, request); });
  }
  // Nothing to do: a stopping server waits for these calls.
  void Drain() override {}
  void CheckTime(std::chrono::steady_clock::time_point now) override { unread_.Check(now); }

  void OnWriteDone(bool ok) noexcept override {
    unread_.EndWrite();
    if (!ok) return Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the client no longer reads"));
    if (offset_ == source_->bytes.size()) return Finish(grpc::Status::OK);
    Write(NextChunk());
  }

  void OnDone() noexcept override { const auto last = std::move(self_); }

 private:
  void Open(Engine& engine, const v1::GetPartialRequest& request) {
    auto source = FindPartial(engine, request);
    if (!source.ok()) return Finish(ToGrpcStatus(source.status()));
    source_ = *std::move(source);
    offset_ = request.offset();
    chunk_bytes_ = ChunkBytes(request.chunk_bytes());
    v1::GetPartialResponse response;
    v1::PartialHeader& header = *response.mutable_header();
    header.set_round(request.name());
    header.set_bytes(source_->bytes.size());
    header.set_digest(source_->digest);
    *header.mutable_manifest() = ToProto(source_->result->manifest);
    Write(ToBytes(response));
  }

  void Write(const grpc::ByteBuffer& message) {
    message_ = message;
    unread_.BeginWrite();
    StartWrite(&message_);
  }

  // The bytes are sent from the result's memory.
  grpc::ByteBuffer NextChunk() {
    v1::AggregateChunk chunk;
    chunk.set_offset(offset_);
    const std::string_view piece = source_->bytes.Piece(offset_, chunk_bytes_);
    using Held = std::shared_ptr<const Source>;
    const auto release = [](void* source) { delete static_cast<Held*>(source); };
    const grpc::Slice slices[] = {
        grpc::Slice(ChunkHead(v1::GetPartialResponse::kChunkFieldNumber, chunk,
                              v1::AggregateChunk::kDataFieldNumber, piece.size())),
        grpc::Slice(const_cast<char*>(piece.data()), piece.size(), release, new Held(source_))};
    offset_ += piece.size();
    return {slices, 2};
  }

  CallCounter::Entry call_entry_;
  std::shared_ptr<GetPartialCall> self_;  // until OnDone
  std::shared_ptr<const Source> source_;
  uint64_t offset_ = 0;  // of the next byte to be sent
  uint64_t chunk_bytes_ = 0;
  grpc::ByteBuffer message_;
  UnreadLimit unread_;
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartGetPartial(grpc::CallbackServerContext& context,
                                                            Engine& engine, Background& background,
                                                            DrainList& drain_list,
                                                            CallCounter& calls,
                                                            const v1::GetPartialRequest& request) {
  const auto call = std::make_shared<GetPartialCall>(context, engine, calls);
  call->Begin(drain_list, background, engine, request);
  return call.get();
}

}  // namespace sparseagg
