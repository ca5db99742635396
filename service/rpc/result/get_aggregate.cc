#include "service/rpc/result/get_aggregate.h"

#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/rpc/result/get_divided.h"
#include "service/rpc/result/result_writer.h"
#include "service/rpc/stream/unread_limit.h"
#include "service/rpc/wire/status_table.h"

namespace sparseagg {
namespace {

// From this size on, finding the rows of a selection may take longer than a gRPC reaction should.
constexpr size_t kLongRequestBytes = size_t{64} << 10;

// The same for a result whose indices are packed, because every block of them is planned first.
constexpr uint64_t kLongPackedRows = uint64_t{64} << 10;

absl::StatusOr<std::unique_ptr<ResultWriter>> OpenResult(Engine& engine,
                                                         const v1::GetAggregateRequest& request) {
  SPARSEAGG_ASSIGN_OR_RETURN(std::shared_ptr<const PublishedResult> result,
                             engine.Result(request.name()));
  if (result->spec.publish_partial) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "RESULT_IS_PARTIAL",
                     absl::StrCat("the result of round \"", request.name(),
                                  "\" is a partial aggregate; GetPartial returns it"));
  }
  return ResultWriter::Make(std::move(result), request, engine.limits().dense_result_bytes_max);
}

// One operation at a time, each started when the one before ends; so no lock.
class GetAggregateCall : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                         public DrainableCall,
                         public std::enable_shared_from_this<GetAggregateCall> {
 public:
  GetAggregateCall(grpc::CallbackServerContext& context, Engine& engine, CallCounter& calls)
      : engine_(engine), call_entry_(calls), unread_(context, engine.limits()) {}

  void Begin(DrainList& drain_list, Background& background, v1::GetAggregateRequest request) {
    self_ = shared_from_this();
    drain_list.Add(self_);
    if (!TakesLong(engine_, request)) return Open(request);
    background.Run([this, request = std::move(request)] { Open(request); });
  }

  // Nothing to do: a stopping server waits for these calls.
  void Drain() override {}
  void CheckTime(std::chrono::steady_clock::time_point now) override { unread_.Check(now); }

  void OnWriteDone(bool ok) noexcept override {
    unread_.EndWrite();
    if (ok) {
      WriteNext();
    } else {
      Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the client no longer reads"));
    }
  }

  void OnDone() noexcept override { const auto last = std::move(self_); }

 private:
  void Open(const v1::GetAggregateRequest& request) {
    absl::StatusOr<std::unique_ptr<ResultWriter>> writer = OpenResult(engine_, request);
    if (!writer.ok()) return Finish(ToGrpcStatus(writer.status()));
    writer_ = *std::move(writer);
    WriteNext();
  }

  void WriteNext() {
    if (writer_->Next<v1::GetAggregateResponse>(message_)) {
      unread_.BeginWrite();
      StartWrite(&message_);
    } else {
      Finish(grpc::Status::OK);
    }
  }

  Engine& engine_;
  CallCounter::Entry call_entry_;
  std::shared_ptr<GetAggregateCall> self_;  // until OnDone
  std::unique_ptr<ResultWriter> writer_;
  grpc::ByteBuffer message_;
  UnreadLimit unread_;
};

}  // namespace

bool TakesLong(Engine& engine, const v1::GetAggregateRequest& request) {
  if (request.ByteSizeLong() >= kLongRequestBytes) return true;
  if (request.encoding() != "coo.packed") return false;
  const auto result = engine.Result(request.name());
  if (!result.ok()) return false;
  uint64_t rows = 0;
  for (const SparseTensor& tensor : (*result)->tensors) rows += tensor.nnz();
  return rows >= kLongPackedRows;
}

absl::Status ReadResult(Engine& engine, const v1::ReadResultRequest& request,
                        grpc::ByteBuffer& response) {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto writer, OpenResult(engine, request.result()));
  return writer->ReadAt(request.offset(), request.bytes(), response);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartGetAggregate(
    grpc::CallbackServerContext& context, Engine& engine, Background& background,
    DrainList& drain_list, CallCounter& calls, v1::GetAggregateRequest request) {
  if (auto divided = FindDivided(engine, request.name()); divided != nullptr) {
    return StartGetDivided(context, engine, drain_list, calls, std::move(divided), request);
  }
  const auto call = std::make_shared<GetAggregateCall>(context, engine, calls);
  call->Begin(drain_list, background, std::move(request));
  return call.get();
}

}  // namespace sparseagg
