#include "service/rpc/stream_updates.h"

#include <grpcpp/alarm.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "proto/error_details.h"
#include "service/rpc/answer_hold.h"
#include "service/rpc/message_bytes.h"
#include "service/rpc/received_update.h"
#include "service/rpc/round_proto.h"
#include "service/rpc/status_table.h"
#include "service/rpc/stream_pace.h"
#include "service/rpc/stream_uploads.h"
#include "service/rpc/update_proto.h"
#include "service/rpc/wire_reader.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

// About 200 bytes each: the answers that a stream may hold back.
constexpr size_t kQueuedResponsesMax = 4096;

// In one message, of callers that take more than one.
constexpr int kAnswersTogetherMax = 1000;

// Updates of a stream that are counted on other threads while it reads on.
constexpr size_t kJobsMax = 64;
constexpr uint64_t kJobBytesMax = uint64_t{16} << 20;

// Updates refused in the middle of their chunks: what is still under way of them is skipped without
// further errors.
constexpr size_t kRefusedUpdatesMax = 4096;

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

// The flags under the mutex say what is under way; Step() starts what can start. Operations are
// started under the mutex: gRPC runs reactions on its own threads, never inside a Start call.
class StreamUpdatesCall : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                          public DrainableCall,
                          public std::enable_shared_from_this<StreamUpdatesCall> {
 public:
  StreamUpdatesCall(grpc::CallbackServerContext& context, AdmittedCall admitted,
                    Background& background, Background& commits, CallCounter& calls)
      : context_(context),
        admitted_(std::move(admitted)),
        engine_(*admitted_.engine),
        background_(background),
        commits_(commits),
        call_entry_(calls),
        pace_(engine_.limits()) {}

  void Begin(DrainList& drain_list) {
    self_ = shared_from_this();
    drain_list.Add(self_);
    const std::lock_guard lock(mutex_);
    Step();
  }

  void Drain() override {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    Step();
  }

  // Ends a stream that keeps the server waiting: for a message, or for somebody to read the
  // answers.
  void CheckTime(Time now) override {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    const std::chrono::milliseconds idle(engine_.limits().stream_idle_ms);
    if (writing_) {
      if (idle.count() > 0 && now - write_begin_ > idle) context_.TryCancel();
      return;
    }
    if (!reading_ || handling_ || jobs_ > 0 || !end_error_.ok()) return;
    end_error_ = pace_.CheckIdle(now, !uploads_.empty());
    if (end_error_.ok()) return;
    for (const std::string& update_id : uploads_.RefuseAll(end_error_)) {
      AnswerLocked(update_id, end_error_);
    }
    Step();
  }

  void OnReadDone(bool ok) override {
    absl::Status pace;
    {
      const std::lock_guard lock(mutex_);
      // The call ended while the message was on its way; it is not counted.
      if (finished_ || !end_error_.ok()) return;
      handling_ = true;
      const Time now = Clock::now();
      hold_.OnMessage(now - read_begin_);
      pace = pace_.EndWait(now, ok ? request_.Length() : 0, !uploads_.empty());
    }
    if (!ok) {
      AnswerIncompleteUploads();
      return MessageHandled(ok);
    }
    if (!pace.ok()) {
      for (const std::string& update_id : uploads_.RefuseAll(pace)) Refuse(update_id, pace);
    }
    HandleMessage();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    pace_.BeginWait(Clock::now());  // the client may have waited for this
    if (!ok) broken_ = true;
    Step();
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    Step();
  }

  void OnDone() override {
    {
      const std::lock_guard lock(mutex_);  // whoever called Finish() has left Step()
    }
    admitted_.place.reset();
    call_entry_.reset();
    const auto last = std::move(self_);
  }

 private:
  void HandleMessage() {
    MessageBytes bytes(request_);
    request_.Clear();
    absl::StatusOr<ReceivedStreamMessage> message = ReadStreamUpdates(bytes.chain());
    if (!message.ok()) {
      Answer("", message.status());
      return MessageHandled(/*ok=*/true);
    }
    if (message->takes_more && !takes_more_) {
      const std::lock_guard lock(mutex_);
      takes_more_ = true;
    }
    if (auto* update = std::get_if<ReceivedUpdate>(&message->body)) {
      HandleUpdate(std::move(bytes), std::move(*update));
    } else if (const auto* begin = std::get_if<v1::BeginUpdate>(&message->body)) {
      return HandleInTurn(engine_.WaitsForDisk(begin->header().round()),
                          [this, begin = *begin] { HandleBegin(begin); });
    } else if (const auto* chunk = std::get_if<ReceivedChunk>(&message->body)) {
      return HandleInTurn(
          uploads_.WaitsForDisk(chunk->update_id),
          [this, chunk = *chunk, bytes = std::make_shared<MessageBytes>(std::move(bytes))] {
            HandleChunk(chunk);
          });
    } else {
      Answer("", MakeError(absl::StatusCode::kInvalidArgument, "EMPTY_MESSAGE",
                           "a message of the stream has no body; set update, begin or chunk"));
    }
    MessageHandled(/*ok=*/true);
  }

  // Handles a message before the next one is read; on another thread when it waits for the disk.
  void HandleInTurn(bool waits_for_disk, std::function<void()> handle) {
    if (!waits_for_disk) {
      handle();
      return MessageHandled(/*ok=*/true);
    }
    commits_.Run([call = shared_from_this(), handle = std::move(handle)]() mutable {
      handle();
      handle = nullptr;
      call->MessageHandled(/*ok=*/true);
    });
  }

  // The end of what OnReadDone() began.
  void MessageHandled(bool ok) {
    const std::lock_guard lock(mutex_);
    reading_ = false;
    handling_ = false;
    if (!ok) reads_done_ = true;
    Step();
  }

  void HandleUpdate(MessageBytes bytes, ReceivedUpdate update) {
    if (!engine_.WaitsForDisk(update.header.round())) {
      return Answer(update.header.update_id(), Submit(update), kMayWait);
    }
    const uint64_t size = WireReader(bytes.chain()).size();
    const auto kept = std::make_shared<std::pair<MessageBytes, ReceivedUpdate>>(std::move(bytes),
                                                                                std::move(update));
    RunJob(commits_, size, [this, kept] {
      Answer(kept->second.header.update_id(), Submit(kept->second), kMayWait);
    });
  }

  absl::StatusOr<Receipt> Submit(const ReceivedUpdate& update) {
    SPARSEAGG_RETURN_IF_ERROR(admitted_.CheckContributor(update.header.contributor()));
    SPARSEAGG_ASSIGN_OR_RETURN(const auto tensors, EncodedTensorsOf(update));
    return engine_.Submit(FromProto(update.header), tensors);
  }

  void HandleBegin(const v1::BeginUpdate& message) {
    const std::string& update_id = message.header().update_id();
    absl::StatusOr<std::shared_ptr<Upload>> upload = BeginUpload(message);
    if (!upload.ok()) return Refuse(update_id, upload.status());
    v1::StreamUpdatesResponse response;
    response.set_update_id(update_id);
    response.mutable_progress()->set_committed_offset((*upload)->committed_offset());
    {
      const std::lock_guard lock(mutex_);
      QueueLocked(std::move(response), kAtOnce);
    }
    // All there already: an update without entries, or one that was counted before.
    if ((*upload)->committed_offset() == (*upload)->total_bytes()) {
      uploads_.Erase(update_id);
      FinishInBackground(message.header().round(), update_id, *std::move(upload));
    }
  }

  absl::StatusOr<std::shared_ptr<Upload>> BeginUpload(const v1::BeginUpdate& message) {
    const UpdateHeader header = FromProto(message.header());
    SPARSEAGG_RETURN_IF_ERROR(admitted_.CheckContributor(header.contributor));
    SPARSEAGG_RETURN_IF_ERROR(uploads_.CheckId(header));
    SPARSEAGG_ASSIGN_OR_RETURN(std::vector<EncodedHeader> tensors, HeadersOf(message));
    SPARSEAGG_ASSIGN_OR_RETURN(std::shared_ptr<Upload> upload,
                               engine_.BeginUpload(header, std::move(tensors)));
    refused_.erase(header.update_id);
    uploads_.Insert(header, upload);
    return upload;
  }

  void HandleChunk(const ReceivedChunk& chunk) {
    if (refused_.contains(chunk.update_id)) return;
    absl::StatusOr<StreamUploads::Complete> complete = uploads_.Append(chunk);
    if (!complete.ok()) return Refuse(chunk.update_id, complete.status());
    if (complete->upload == nullptr) return;
    FinishInBackground(complete->round, chunk.update_id, std::move(complete->upload));
  }

  void FinishInBackground(const std::string& round, const std::string& update_id,
                          std::shared_ptr<Upload> upload) {
    const bool waits_for_disk = engine_.WaitsForDisk(round);
    if (!waits_for_disk && upload->arrived()) return Answer(update_id, upload->Finish());
    Background& background = waits_for_disk ? commits_ : background_;
    const uint64_t bytes = upload->total_bytes();
    RunJob(background, bytes, [this, update_id, upload = std::move(upload)]() mutable {
      const absl::StatusOr<Receipt> receipt = upload->Finish();
      upload.reset();
      Answer(update_id, receipt);
    });
  }

  // Runs `job` on another thread. The call lives until it is done, and reads on if it may.
  void RunJob(Background& background, uint64_t bytes, std::function<void()> job) {
    {
      const std::lock_guard lock(mutex_);
      ++jobs_;
      job_bytes_ += bytes;
    }
    background.Run([call = shared_from_this(), bytes, job = std::move(job)]() mutable {
      job();
      job = nullptr;
      const std::lock_guard lock(call->mutex_);
      --call->jobs_;
      call->job_bytes_ -= bytes;
      call->pace_.BeginWait(Clock::now());
      call->Step();
    });
  }

  void AnswerIncompleteUploads() {
    for (const auto& [update_id, error] : uploads_.TakeIncomplete()) Answer(update_id, error);
  }

  // An error that ends an update whose further chunks may be on their way.
  void Refuse(const std::string& update_id, const absl::Status& error) {
    if (refused_.size() >= kRefusedUpdatesMax) refused_.clear();
    if (!uploads_.Contains(update_id)) refused_.insert(update_id);
    Answer(update_id, error);
  }

  // Whether the sender of many may have an answer with those that follow.
  enum When { kAtOnce, kMayWait };

  void Answer(const std::string& update_id, const absl::StatusOr<Receipt>& outcome,
              When when = kAtOnce) {
    const std::lock_guard lock(mutex_);
    AnswerLocked(update_id, outcome, when);
  }

  void AnswerLocked(const std::string& update_id, const absl::StatusOr<Receipt>& outcome,
                    When when = kAtOnce) {
    v1::StreamUpdatesResponse response;
    response.set_update_id(update_id);
    if (outcome.ok()) {
      *response.mutable_receipt() = ToProto(*outcome);
    } else {
      *response.mutable_error() = ToProto(outcome.status());
    }
    QueueLocked(std::move(response), when);
  }

  void QueueLocked(v1::StreamUpdatesResponse response, When when) {
    if (broken_) return;
    responses_.push_back(std::move(response));
    if (when == kAtOnce) hold_.SendNow();
    Step();
  }

  // REQUIRES: mutex_ held.
  void Step() {
    if (finished_) return;
    if (broken_) responses_.clear();
    const bool idle = !handling_ && !writing_ && jobs_ == 0 && responses_.empty();
    if (idle && (broken_ || reads_done_ || draining_ || !end_error_.ok())) {
      finished_ = true;
      Finish(EndStatus());
      return;
    }
    if (!writing_ && !responses_.empty() && !HoldResponses()) {
      writing_ = true;
      write_begin_ = Clock::now();
      written_ = ToBytes(TakeResponses());
      // More answers wait: let gRPC send them together.
      auto options = grpc::WriteOptions();
      if (!responses_.empty()) options.set_buffer_hint();
      StartWrite(&written_, options);
    }
    const bool may_read = !reads_done_ && !broken_ && !draining_ && end_error_.ok() &&
                          responses_.size() < kQueuedResponsesMax;
    const bool may_wait = jobs_ < kJobsMax && job_bytes_ < kJobBytesMax;
    if (!reading_ && may_read && may_wait) {
      reading_ = true;
      read_begin_ = Clock::now();
      pace_.BeginWait(read_begin_);
      StartRead(&request_);
    }
  }

  // What the next message says. REQUIRES: mutex_ held, and that there is something.
  v1::StreamUpdatesResponse TakeResponses() {
    v1::StreamUpdatesResponse taken = std::move(responses_.front());
    responses_.pop_front();
    while (takes_more_ && !responses_.empty() && taken.more_size() + 1 < kAnswersTogetherMax) {
      *taken.add_more() = std::move(responses_.front());
      responses_.pop_front();
    }
    return taken;
  }

  // Whether what could be sent waits for more. REQUIRES: mutex_ held.
  bool HoldResponses() {
    if (!takes_more_ || reads_done_ || draining_ || !end_error_.ok()) return false;
    if (!hold_.Holds(responses_.size())) return false;
    if (!std::exchange(alarm_is_set_, true)) {
      alarm_.emplace();
      alarm_->Set(std::chrono::system_clock::now() + AnswerHold::kTime,
                  [weak = weak_from_this()](bool) {  // a call has its alarm
                    if (const auto call = weak.lock()) call->SendHeldResponses();
                  });
    }
    return true;
  }

  void SendHeldResponses() {
    const std::lock_guard lock(mutex_);
    alarm_is_set_ = false;
    if (responses_.empty()) return;
    const bool waiting = reading_ && !handling_;
    hold_.TimeIsUp(responses_.size(),
                   waiting ? Clock::now() - read_begin_ : Clock::duration::zero());
    Step();
  }

  grpc::Status EndStatus() const {
    if (broken_) return grpc::Status(grpc::StatusCode::CANCELLED, "cancelled by the caller");
    if (!end_error_.ok()) return ToGrpcStatus(end_error_);
    return reads_done_ ? grpc::Status::OK : ToGrpcStatus(DrainingError());
  }

  grpc::CallbackServerContext& context_;
  AdmittedCall admitted_;
  Engine& engine_;  // of the caller's tenant
  Background& background_;
  Background& commits_;
  std::optional<CallCounter::Entry> call_entry_;  // until OnDone
  std::shared_ptr<StreamUpdatesCall> self_;       // until OnDone

  // Only the reading side, one message at a time; and, while it waits for one, whoever holds
  // mutex_.
  grpc::ByteBuffer request_;
  StreamUploads uploads_;
  std::set<std::string> refused_;

  std::mutex mutex_;
  std::deque<v1::StreamUpdatesResponse> responses_;
  grpc::ByteBuffer written_;
  bool reading_ = false;   // from StartRead() until the message has been handled
  bool handling_ = false;  // the later part of it
  bool writing_ = false;
  Time write_begin_;
  Time read_begin_;
  bool takes_more_ = false;  // the caller, in a message
  AnswerHold hold_;
  bool alarm_is_set_ = false;
  std::optional<grpc::Alarm> alarm_;  // when none is held any longer
  StreamPace pace_;
  absl::Status end_error_;  // why the server ends the call
  size_t jobs_ = 0;
  uint64_t job_bytes_ = 0;   // of their updates
  bool reads_done_ = false;  // the caller closed its side
  bool draining_ = false;
  bool broken_ = false;  // nobody reads the answers any more
  bool finished_ = false;
};

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartStreamUpdates(
    grpc::CallbackServerContext& context, AdmittedCall admitted, Background& background,
    Background& commits, DrainList& drain_list, CallCounter& calls) {
  const auto call =
      std::make_shared<StreamUpdatesCall>(context, std::move(admitted), background, commits, calls);
  call->Begin(drain_list);
  return call.get();
}

}  // namespace sparseagg
