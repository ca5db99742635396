#include "service/rpc/get_aggregate.h"

#include <memory>
#include <utility>

#include "service/rpc/result_writer.h"
#include "service/rpc/status_table.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

absl::StatusOr<std::unique_ptr<ResultWriter>> OpenResult(Engine& engine,
                                                         const v1::GetAggregateRequest& request) {
  SPARSEAGG_ASSIGN_OR_RETURN(std::shared_ptr<const PublishedResult> result,
                             engine.Result(request.name()));
  return ResultWriter::Make(std::move(result), request, engine.limits().dense_result_bytes_max);
}

// One operation at a time, each started by the end of the one before; so no lock.
class GetAggregateCall : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  GetAggregateCall(Engine& engine, CallCounter& calls, const v1::GetAggregateRequest& request)
      : call_entry_(calls) {
    absl::StatusOr<std::unique_ptr<ResultWriter>> writer = OpenResult(engine, request);
    if (!writer.ok()) {
      Finish(ToGrpcStatus(writer.status()));
      return;
    }
    writer_ = *std::move(writer);
    WriteNext();
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      WriteNext();
    } else {
      Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the reader is gone"));
    }
  }

  void OnDone() override { delete this; }

 private:
  void WriteNext() {
    if (writer_->Next<v1::GetAggregateResponse>(message_)) {
      StartWrite(&message_);
    } else {
      Finish(grpc::Status::OK);
    }
  }

  CallCounter::Entry call_entry_;
  std::unique_ptr<ResultWriter> writer_;
  grpc::ByteBuffer message_;
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartGetAggregate(
    Engine& engine, CallCounter& calls, const v1::GetAggregateRequest& request) {
  return new GetAggregateCall(engine, calls, request);
}

}  // namespace sparseagg
