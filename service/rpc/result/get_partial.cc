#include "service/rpc/result/get_partial.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/chunk_head.h"
#include "service/engine/partial/round_partial.h"
#include "service/rpc/result/result_writer.h"
#include "service/rpc/stream/unread_limit.h"
#include "service/rpc/wire/message_bytes.h"
#include "service/rpc/wire/round_proto.h"
#include "service/rpc/wire/status_table.h"

namespace sparseagg {
namespace {

using Result = std::shared_ptr<const PublishedResult>;

absl::StatusOr<Result> FindPartial(Engine& engine, const v1::GetPartialRequest& request) {
  SPARSEAGG_ASSIGN_OR_RETURN(Result result, engine.Result(request.name()));
  if (!result->spec.publish_partial) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "RESULT_NOT_PARTIAL",
                     absl::StrCat("the result of round \"", request.name(),
                                  "\" is rounded; create the round with publish_partial"));
  }
  if (request.offset() > result->partial.size()) {
    return MakeError(absl::StatusCode::kInvalidArgument, "OFFSET_MISMATCH",
                     absl::StrCat("the partial aggregate has ", result->partial.size(),
                                  " bytes; offset ", request.offset(), " is beyond its end"));
  }
  return result;
}

// One operation at a time, each started when the one before ends; so no lock.
class GetPartialCall : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                       public DrainableCall,
                       public std::enable_shared_from_this<GetPartialCall> {
 public:
  GetPartialCall(grpc::CallbackServerContext& context, Engine& engine, CallCounter& calls)
      : call_entry_(calls), unread_(context, engine.limits()) {}

  void Begin(DrainList& drain_list, Engine& engine, const v1::GetPartialRequest& request) {
    self_ = shared_from_this();
    drain_list.Add(self_);
    absl::StatusOr<Result> result = FindPartial(engine, request);
    if (!result.ok()) return Finish(ToGrpcStatus(result.status()));
    result_ = *std::move(result);
    offset_ = request.offset();
    chunk_bytes_ = request.chunk_bytes() == 0 ? kChunkBytesDefault
                                              : std::min(request.chunk_bytes(), kChunkBytesMax);
    v1::GetPartialResponse response;
    v1::PartialHeader& header = *response.mutable_header();
    header.set_round(request.name());
    header.set_bytes(result_->partial.size());
    header.set_digest(std::string(PartialDigest(result_->partial)));
    *header.mutable_manifest() = ToProto(result_->manifest);
    Write(ToBytes(response));
  }

  // Nothing to do: a stopping server waits for these calls.
  void Drain() override {}
  void CheckTime(std::chrono::steady_clock::time_point now) override { unread_.Check(now); }

  void OnWriteDone(bool ok) noexcept override {
    unread_.EndWrite();
    if (!ok) return Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the client no longer reads"));
    if (offset_ == result_->partial.size()) return Finish(grpc::Status::OK);
    Write(NextChunk());
  }

  void OnDone() noexcept override { const auto last = std::move(self_); }

 private:
  void Write(grpc::ByteBuffer message) {
    message_ = std::move(message);
    unread_.BeginWrite();
    StartWrite(&message_);
  }

  // The bytes are sent from the result's memory.
  grpc::ByteBuffer NextChunk() {
    v1::AggregateChunk chunk;
    chunk.set_offset(offset_);
    const size_t bytes = std::min<uint64_t>(chunk_bytes_, result_->partial.size() - offset_);
    const auto release = [](void* result) { delete static_cast<Result*>(result); };
    const grpc::Slice slices[] = {
        grpc::Slice(ChunkHead(v1::GetPartialResponse::kChunkFieldNumber, chunk,
                              v1::AggregateChunk::kDataFieldNumber, bytes)),
        grpc::Slice(const_cast<char*>(result_->partial.data() + offset_), bytes, release,
                    new Result(result_))};
    offset_ += bytes;
    return {slices, 2};
  }

  CallCounter::Entry call_entry_;
  std::shared_ptr<GetPartialCall> self_;  // until OnDone
  Result result_;
  uint64_t offset_ = 0;  // of the next byte to be sent
  uint64_t chunk_bytes_ = 0;
  grpc::ByteBuffer message_;
  UnreadLimit unread_;
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartGetPartial(grpc::CallbackServerContext& context,
                                                            Engine& engine, DrainList& drain_list,
                                                            CallCounter& calls,
                                                            const v1::GetPartialRequest& request) {
  const auto call = std::make_shared<GetPartialCall>(context, engine, calls);
  call->Begin(drain_list, engine, request);
  return call.get();
}

}  // namespace sparseagg
