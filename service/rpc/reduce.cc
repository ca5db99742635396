#include "service/rpc/reduce.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/status.h"
#include "service/engine/names.h"
#include "service/rpc/result/result_writer.h"
#include "service/rpc/stream/stream_pace.h"
#include "service/rpc/stream/stream_uploads.h"
#include "service/rpc/stream/unread_limit.h"
#include "service/rpc/wire/message_bytes.h"
#include "service/rpc/wire/received_update.h"
#include "service/rpc/wire/round_proto.h"
#include "service/rpc/wire/status_table.h"
#include "service/rpc/wire/update_proto.h"
#include "sparse/validate.h"

namespace sparseagg {
namespace {

absl::Status Invalid(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason, message);
}

// One operation at a time: a read, a background job or a write, each started when the one before
// ends. So only the end of a wait needs a lock. A cancellation makes the current operation, or the
// next one, end with ok == false.
class ReduceCall : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                   public DrainableCall,
                   public std::enable_shared_from_this<ReduceCall> {
 public:
  ReduceCall(grpc::CallbackServerContext& context, Engine& engine, Background& background,
             CallCounter& calls)
      : context_(context),
        engine_(engine),
        background_(background),
        call_entry_(calls),
        unread_(context, engine.limits()),
        pace_(engine.limits()) {}

  void Begin(DrainList& drain_list) {
    self_ = shared_from_this();
    drain_list.Add(self_);
    ReadNext();
  }

  // Nothing to do: a stopping server waits for the reductions in progress.
  void Drain() override {}

  // Ends a call whose client keeps the server waiting, for a message or for reading the answer.
  void CheckTime(std::chrono::steady_clock::time_point now) override {
    unread_.Check(now);
    const std::lock_guard lock(wait_mutex_);
    if (!waiting_) return;
    const absl::Status idle = pace_.CheckIdle(now, !uploads_.empty());
    if (idle.ok()) return;
    waiting_ = false;
    Finish(ToGrpcStatus(idle));
  }

  void OnReadDone(bool ok) noexcept override {
    absl::Status pace;
    {
      const std::lock_guard lock(wait_mutex_);
      if (!std::exchange(waiting_, false)) return;  // CheckTime() has ended the call
      pace = pace_.EndWait(std::chrono::steady_clock::now(), ok ? request_.Length() : 0,
                           !uploads_.empty());
    }
    if (!ok) return ReportInBackground();
    if (!pace.ok()) return Finish(ToGrpcStatus(pace));
    // In the background even for a short message: the update that it completes may trigger the fold
    // of all earlier ones.
    background_.Run([this] { Handle(); });
  }

  void OnWriteDone(bool ok) noexcept override {
    unread_.EndWrite();
    if (ok) {
      WriteNext();
    } else {
      Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the client no longer reads"));
    }
  }

  void OnDone() noexcept override {
    {
      const std::lock_guard lock(wait_mutex_);  // so that the thread that called Finish() has left
    }
    const auto last = std::move(self_);
  }

 private:
  void Handle() {
    update_id_.clear();
    absl::StatusOr<std::shared_ptr<Upload>> complete = HandleMessage();
    request_.Clear();
    if (!complete.ok()) return Refuse(complete.status());
    if (*complete != nullptr) {
      const absl::Status counted = (*complete)->Finish().status();
      complete->reset();
      if (!counted.ok()) return Refuse(counted);
    }
    ReadNext();  // last, because the call may continue, and end, before this returns
  }

  // Names the update in the error, since many share the call. An invalid id is not repeated.
  void Refuse(const absl::Status& error) {
    if (!ValidateUpdateId(update_id_).ok()) update_id_.clear();
    Finish(ToGrpcStatus(AttributeToUpdate(error, update_id_)));
  }

  void ReadNext() {
    const std::lock_guard lock(wait_mutex_);
    waiting_ = true;
    pace_.BeginWait(std::chrono::steady_clock::now());
    StartRead(&request_);
  }

  // Returns the upload that the message completed, or null.
  absl::StatusOr<std::shared_ptr<Upload>> HandleMessage() {
    const MessageBytes bytes(request_);
    SPARSEAGG_ASSIGN_OR_RETURN(const ReceivedReduceMessage message, ReadReduce(bytes.chain()));
    if (const auto* start = std::get_if<v1::ReduceStart>(&message)) {
      SPARSEAGG_RETURN_IF_ERROR(HandleStart(*start));
      return nullptr;
    }
    if (reduction_ == nullptr)
      return Invalid("REDUCE_NOT_STARTED", "the first message of Reduce must be start");
    if (const auto* update = std::get_if<ReceivedUpdate>(&message)) {
      update_id_ = update->header.update_id();
      SPARSEAGG_ASSIGN_OR_RETURN(const auto tensors, EncodedTensorsOf(*update));
      SPARSEAGG_RETURN_IF_ERROR(reduction_->Add(FromProto(update->header), tensors));
      return nullptr;
    }
    if (const auto* begin = std::get_if<v1::BeginUpdate>(&message)) return HandleBegin(*begin);
    if (const auto* chunk = std::get_if<ReceivedChunk>(&message)) {
      update_id_ = chunk->update_id;
      SPARSEAGG_ASSIGN_OR_RETURN(auto complete, uploads_.Append(*chunk));
      return std::move(complete.upload);
    }
    return Invalid("EMPTY_MESSAGE", "a message of Reduce has no body; set update, begin or chunk");
  }

  absl::Status HandleStart(const v1::ReduceStart& start) {
    if (reduction_ != nullptr)
      return Invalid("REDUCE_STARTED_TWICE", "Reduce accepts one start, as the first message");
    SPARSEAGG_ASSIGN_OR_RETURN(const RoundSpec spec, FromProto(start.spec(), Durability::kMemory));
    SPARSEAGG_RETURN_IF_ERROR(FindEncoding(start.encoding()).status());
    SPARSEAGG_ASSIGN_OR_RETURN(reduction_, engine_.NewReduction(spec));
    answer_.set_layout(start.layout());
    answer_.set_chunk_bytes(start.chunk_bytes());
    answer_.set_encoding(start.encoding());
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<Upload>> HandleBegin(const v1::BeginUpdate& begin) {
    const UpdateHeader header = FromProto(begin.header());
    update_id_ = header.update_id;
    if (uploads_.Contains(header.update_id)) {
      return MakeError(absl::StatusCode::kAlreadyExists, "UPDATE_ID_IN_USE",
                       "update_id \"" + header.update_id +
                           "\" is unfinished; send the rest of its chunks first");
    }
    SPARSEAGG_ASSIGN_OR_RETURN(std::vector<EncodedHeader> tensors, HeadersOf(begin));
    SPARSEAGG_ASSIGN_OR_RETURN(std::shared_ptr<Upload> upload,
                               reduction_->BeginUpload(header, std::move(tensors)));
    if (upload->total_bytes() == 0) return upload;
    uploads_.Insert(header, std::move(upload));
    return nullptr;
  }

  void ReportInBackground() {
    background_.Run([this] {
      // Checked as late as possible: the last read of a cancelled call may end before OnCancel() is
      // called, as if the client had finished.
      if (context_.IsCancelled()) {
        return Finish(grpc::Status(grpc::StatusCode::CANCELLED, "cancelled by the caller"));
      }
      const absl::Status status = Report();
      if (!status.ok()) return Finish(ToGrpcStatus(status));
      WriteNext();
    });
  }

  absl::Status Report() {
    if (reduction_ == nullptr)
      return Invalid("REDUCE_NOT_STARTED", "the first message of Reduce must be start");
    for (const auto& [update_id, error] : uploads_.TakeIncomplete()) return error;
    SPARSEAGG_ASSIGN_OR_RETURN(std::shared_ptr<const PublishedResult> result, reduction_->Report());
    SPARSEAGG_ASSIGN_OR_RETURN(
        writer_,
        ResultWriter::Make(std::move(result), answer_, engine_.limits().dense_result_bytes_max));
    reduction_.reset();
    return absl::OkStatus();
  }

  void WriteNext() {
    if (writer_->Next<v1::ReduceResponse>(response_)) {
      unread_.BeginWrite();
      StartWrite(&response_);
    } else {
      Finish(grpc::Status::OK);
    }
  }

  grpc::CallbackServerContext& context_;
  Engine& engine_;
  Background& background_;
  CallCounter::Entry call_entry_;
  std::shared_ptr<ReduceCall> self_;  // until OnDone
  grpc::ByteBuffer request_;
  std::string update_id_;           // the update of the last message; empty: none
  v1::GetAggregateRequest answer_;  // the form of the answer
  std::unique_ptr<StatelessReduction> reduction_;
  StreamUploads
      uploads_;  // after reduction_, so that it is destroyed first: uploads refer to the reduction
  std::unique_ptr<ResultWriter> writer_;
  grpc::ByteBuffer response_;
  UnreadLimit unread_;

  std::mutex wait_mutex_;  // orders the end of a read and CheckTime()
  StreamPace pace_;
  bool waiting_ = false;  // the call waits for a message, not for its own work
};

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartReduce(
    grpc::CallbackServerContext& context, Engine& engine, Background& background,
    DrainList& drain_list, CallCounter& calls) {
  const auto call = std::make_shared<ReduceCall>(context, engine, background, calls);
  call->Begin(drain_list);
  return call.get();
}

}  // namespace sparseagg
