#include "service/rpc/result/get_divided.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/rpc/result/divided_answer.h"
#include "service/rpc/result/result_writer.h"
#include "service/rpc/stream/unread_limit.h"
#include "service/rpc/unary_call.h"
#include "service/rpc/wire/message_bytes.h"
#include "service/rpc/wire/status_table.h"

namespace sparseagg {
namespace {

// While a chunk is sent, the next one is read. Whichever of the two ends last starts the next two.
class GetDividedCall : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                       public DrainableCall,
                       public std::enable_shared_from_this<GetDividedCall> {
 public:
  GetDividedCall(grpc::CallbackServerContext& context, Engine& engine, CallCounter& calls)
      : engine_(engine), call_entry_(calls), unread_(context, engine.limits()) {}

  void Begin(DrainList& drain_list, std::shared_ptr<const PublishedResult> result,
             const v1::GetAggregateRequest& request) {
    self_ = shared_from_this();
    drain_list.Add(self_);
    chunk_bytes_ = ChunkBytes(request.chunk_bytes());
    DividedAnswer::Open(
        std::move(result), request, engine_.limits().dense_result_bytes_max,
        [self = self_](absl::StatusOr<std::shared_ptr<const DividedAnswer>> answer) {
          self->Open(std::move(answer));
        });
  }

  // Nothing to do: a stopping server waits for these calls.
  void Drain() override {}
  void CheckTime(std::chrono::steady_clock::time_point now) override { unread_.Check(now); }

  void OnWriteDone(bool ok) noexcept override {
    unread_.EndWrite();
    if (!ok) return End(grpc::Status(grpc::StatusCode::CANCELLED, "the client no longer reads"));
    {
      const std::lock_guard lock(mutex_);
      is_writing_ = false;
    }
    WriteNext();
  }

  void OnDone() noexcept override { const auto last = std::move(self_); }

 private:
  void Open(absl::StatusOr<std::shared_ptr<const DividedAnswer>> answer) {
    if (!answer.ok()) return End(ToGrpcStatus(answer.status()));
    answer_ = *std::move(answer);
    v1::GetAggregateResponse header;
    *header.mutable_header() = answer_->header();
    {
      const std::lock_guard lock(mutex_);
      is_writing_ = true;
    }
    message_ = ToBytes(header);
    unread_.BeginWrite();
    StartWrite(&message_);
    ReadNext();
  }

  // REQUIRES: nothing is being read, or has been and waits to be sent.
  void ReadNext() {
    if (read_end_ == answer_->bytes()) return;
    const uint64_t offset = read_end_;
    const size_t n = std::min<uint64_t>(chunk_bytes_, answer_->bytes() - offset);
    read_end_ += n;
    answer_->ReadAt(offset, n, [self = shared_from_this()](absl::StatusOr<std::string> bytes) {
      {
        const std::lock_guard lock(self->mutex_);
        if (bytes.ok()) {
          self->next_ = *std::move(bytes);
        } else {
          self->failed_ = bytes.status();
        }
      }
      self->WriteNext();
    });
  }

  void WriteNext() {
    v1::GetAggregateResponse response;
    absl::Status failed;
    {
      const std::lock_guard lock(mutex_);
      if (is_writing_ || has_ended_) return;
      failed = failed_;
      if (next_.has_value()) {
        is_writing_ = true;
        response.mutable_chunk()->set_offset(sent_);
        sent_ += next_->size();
        response.mutable_chunk()->set_data(*std::exchange(next_, std::nullopt));
      } else if (failed.ok() && sent_ < answer_->bytes()) {
        return;  // it is being read
      }
    }
    if (!response.has_chunk()) return End(ToGrpcStatus(failed));
    message_ = ToBytes(response);
    // First, because the call may be over when the write is.
    const auto self = shared_from_this();
    unread_.BeginWrite();
    StartWrite(&message_);
    ReadNext();
  }

  void End(const grpc::Status& status) {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(has_ended_, true)) return;
    }
    Finish(status);
  }

  Engine& engine_;
  CallCounter::Entry call_entry_;
  std::shared_ptr<GetDividedCall> self_;  // until OnDone
  std::shared_ptr<const DividedAnswer> answer_;
  uint64_t chunk_bytes_ = 0;
  uint64_t read_end_ = 0;  // of what has been asked for; used by one thread at a time
  grpc::ByteBuffer message_;
  UnreadLimit unread_;
  std::mutex mutex_;  // guards what follows
  bool is_writing_ = false;
  bool has_ended_ = false;
  uint64_t sent_ = 0;
  std::optional<std::string> next_;
  absl::Status failed_;  // why there is no next chunk
};

absl::Status OutOfRange(uint64_t offset, uint64_t total) {
  return MakeError(absl::StatusCode::kInvalidArgument, "OFFSET_OUT_OF_RANGE",
                   absl::StrCat("offset ", offset, " is behind the end of the answer, which has ",
                                total, " bytes"));
}

// Ends `call` with at most `n` bytes of the answer from `offset` on.
void ReadPiece(std::shared_ptr<const DividedAnswer> answer, uint64_t offset, uint64_t n,
               grpc::ByteBuffer& response, UnaryCall& call) {
  const uint64_t total = answer->bytes();
  if (offset > total) return call.Finish(ToGrpcStatus(OutOfRange(offset, total)));
  const DividedAnswer& source = *answer;
  source.ReadAt(
      offset, std::min(n, total - offset),
      [&call, &response, offset, answer = std::move(answer)](absl::StatusOr<std::string> bytes) {
        if (!bytes.ok()) return call.Finish(ToGrpcStatus(bytes.status()));
        v1::ReadResultResponse piece;
        if (offset == 0) *piece.mutable_header() = answer->header();
        piece.set_total_bytes(answer->bytes());
        piece.mutable_chunk()->set_offset(offset);
        piece.mutable_chunk()->set_data(*std::move(bytes));
        response = ToBytes(piece);
        call.Finish(grpc::Status::OK);
      });
}

}  // namespace

std::shared_ptr<const PublishedResult> FindDivided(Engine& engine, const std::string& round) {
  auto result = engine.Result(round);
  return result.ok() && (*result)->parts != nullptr ? *std::move(result) : nullptr;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartGetDivided(
    grpc::CallbackServerContext& context, Engine& engine, DrainList& drain_list, CallCounter& calls,
    std::shared_ptr<const PublishedResult> result, const v1::GetAggregateRequest& request) {
  const auto call = std::make_shared<GetDividedCall>(context, engine, calls);
  call->Begin(drain_list, std::move(result), request);
  return call.get();
}

grpc::ServerUnaryReactor* StartReadDivided(Engine& engine, CallCounter& calls,
                                           std::shared_ptr<const PublishedResult> result,
                                           const v1::ReadResultRequest& request,
                                           grpc::ByteBuffer* response) {
  auto* call = new UnaryCall(calls);
  DividedAnswer::Open(std::move(result), request.result(), engine.limits().dense_result_bytes_max,
                      [call, response, offset = request.offset(), n = ChunkBytes(request.bytes())](
                          absl::StatusOr<std::shared_ptr<const DividedAnswer>> answer) {
                        if (!answer.ok()) return call->Finish(ToGrpcStatus(answer.status()));
                        ReadPiece(*std::move(answer), offset, n, *response, *call);
                      });
  return call;
}

}  // namespace sparseagg
