#include "service/rpc/stream_updates.h"

#include <grpcpp/alarm.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "service/rpc/answer_queue.h"
#include "service/rpc/message_bytes.h"
#include "service/rpc/read_ahead.h"
#include "service/rpc/received_update.h"
#include "service/rpc/refused_updates.h"
#include "service/rpc/status_table.h"
#include "service/rpc/stream_pace.h"
#include "service/rpc/stream_uploads.h"
#include "service/rpc/unread_limit.h"
#include "service/rpc/update_proto.h"
#include "service/rpc/wire_reader.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

// Updates of a stream that are counted on other threads while it reads on; those that have been
// read by then come on top.
constexpr size_t kJobsMax = 64;
constexpr uint64_t kJobBytesMax = uint64_t{16} << 20;

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
      : admitted_(std::move(admitted)),
        engine_(*admitted_.engine),
        background_(background),
        commits_(commits),
        call_entry_(calls),
        unread_(context, engine_.limits()),
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
    if (writing_) return unread_.Check(now);
    if (!reading_ || handling_ || jobs_ > 0 || !end_error_.ok()) return;
    end_error_ = pace_.CheckIdle(now, !uploads_.empty());
    if (end_error_.ok()) return;
    for (const std::string& update_id : uploads_.RefuseAll(end_error_)) {
      Queue(ToAnswer(update_id, end_error_), AnswerQueue::kAtOnce);
    }
    Step();
  }

  void OnReadDone(bool ok) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      // The call ended while the message was on its way; it is not counted.
      if (finished_ || !end_error_.ok()) return;
      reading_ = false;
      if (ok) {
        arrived_.Push(request_);
      } else {
        reads_ended_ = true;
      }
      answers_.hold().OnMessage(handling_ ? Clock::duration::zero() : Clock::now() - wait_begin_);
      if (handling_) return Step();  // whoever handles the one before comes to it
      handling_ = true;
    }
    HandleArrived(/*waited=*/true);
  }

  void OnWriteDone(bool ok) noexcept override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    unread_.EndWrite();
    pace_.BeginWait(Clock::now());  // the client may have waited for this
    if (!ok) broken_ = true;
    Step();
  }

  void OnCancel() noexcept override {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    Step();
  }

  void OnDone() noexcept override {
    {
      const std::lock_guard lock(mutex_);  // whoever called Finish() has left Step()
    }
    admitted_.place.reset();
    call_entry_.reset();
    const auto last = std::move(self_);
  }

 private:
  // Handles what has come, until nothing is left. `waited`: nothing was there before.
  void HandleArrived(bool waited) {
    do {
      while (!taken_.empty()) {
        if (!HandleMessage()) return;
      }
    } while (TakeArrived(std::exchange(waited, false)));
  }

  // False: nothing is left, and nobody handles messages any more.
  bool TakeArrived(bool waited) {
    std::unique_lock lock(mutex_);
    QueueOutcomes();
    const Time now = Clock::now();
    if (broken_) arrived_.Clear();
    arrived_.Handled();
    if (arrived_.empty() && reads_ended_) {
      lock.unlock();
      for (const auto& [update_id, error] : uploads_.TakeIncomplete()) Answer(update_id, error);
      lock.lock();
      QueueOutcomes();
      reads_done_ = true;
    }
    if (arrived_.empty()) {
      handling_ = false;
      BeginWait(now);
      Step();
      return false;
    }
    taken_ = arrived_.Take();
    if (!waited) pace_.BeginWait(now);
    const absl::Status pace = pace_.EndWait(now, arrived_.handled_bytes(), !uploads_.empty());
    Step();
    lock.unlock();
    if (!pace.ok()) {
      for (const std::string& update_id : uploads_.RefuseAll(pace)) Refuse(update_id, pace);
    }
    return true;
  }

  // The first one taken. False: on another thread, which goes on with HandleArrived() then.
  bool HandleMessage() {
    MessageBytes bytes(taken_.front());
    taken_.pop_front();
    absl::StatusOr<ReceivedStreamMessage> message = ReadStreamUpdates(bytes.chain());
    if (!message.ok()) {
      Answer("", message.status());
      return true;
    }
    ShortenUpdateId(*message);
    if (message->takes_more && !std::exchange(takes_more_, true)) {
      const std::lock_guard lock(mutex_);
      answers_.SendTogether();
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
    return true;
  }

  // Handles a message before the next one; on another thread when it waits for the disk.
  bool HandleInTurn(bool waits_for_disk, std::function<void()> handle) {
    if (!waits_for_disk) {
      handle();
      return true;
    }
    {
      const std::lock_guard lock(mutex_);
      QueueOutcomes();
      answers_.hold().SendNow();
      Step();
    }
    commits_.Run([call = shared_from_this(), handle = std::move(handle)]() mutable {
      handle();
      handle = nullptr;
      call->HandleArrived(/*waited=*/false);
    });
    return false;
  }

  void HandleUpdate(MessageBytes bytes, ReceivedUpdate update) {
    if (!engine_.WaitsForDisk(update.header.round())) {
      return Answer(update.header.update_id(), Submit(update), AnswerQueue::kMayWait);
    }
    const uint64_t size = WireReader(bytes.chain()).size() + BytesHeld(update);
    const auto kept = std::make_shared<std::pair<MessageBytes, ReceivedUpdate>>(std::move(bytes),
                                                                                std::move(update));
    RunJob(commits_, size, [this, kept] {
      AnswerFromJob(kept->second.header.update_id(), Submit(kept->second), AnswerQueue::kMayWait);
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
    outcomes_.push_back({std::move(response), AnswerQueue::kAtOnce});
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
    refused_.Remove(header.update_id);
    uploads_.Insert(header, upload);
    return upload;
  }

  void HandleChunk(const ReceivedChunk& chunk) {
    if (refused_.Contains(chunk.update_id)) return;
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
      AnswerFromJob(update_id, receipt, AnswerQueue::kAtOnce);
    });
  }

  // Runs `job` on another thread, for the handling side. The call lives until it is done, and reads
  // on if it may.
  void RunJob(Background& background, uint64_t bytes, std::function<void()> job) {
    {
      const std::lock_guard lock(mutex_);
      QueueOutcomes();  // before that of the job
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

  // An error that ends an update whose further chunks may be on their way.
  void Refuse(const std::string& update_id, const absl::Status& error) {
    if (!uploads_.Contains(update_id)) refused_.Add(update_id);
    Answer(update_id, error);
  }

  // On the handling side: queued with the others when all that were taken are handled.
  void Answer(const std::string& update_id, const absl::StatusOr<Receipt>& outcome,
              AnswerQueue::When when = AnswerQueue::kAtOnce) {
    outcomes_.push_back({ToAnswer(update_id, outcome), when});
  }

  void AnswerFromJob(const std::string& update_id, const absl::StatusOr<Receipt>& outcome,
                     AnswerQueue::When when) {
    v1::StreamUpdatesResponse answer = ToAnswer(update_id, outcome);
    const std::lock_guard lock(mutex_);
    Queue(std::move(answer), when);
  }

  // REQUIRES: mutex_ held, on the handling side.
  void QueueOutcomes() {
    for (auto& [answer, when] : outcomes_) Queue(std::move(answer), when);
    outcomes_.clear();
  }

  // Whoever does it calls Step() then. REQUIRES: mutex_ held.
  void Queue(v1::StreamUpdatesResponse answer, AnswerQueue::When when) {
    if (!broken_) answers_.Push(std::move(answer), when);
  }

  // REQUIRES: mutex_ held.
  void Step() {
    if (finished_) return;
    if (broken_) answers_.Clear();
    const bool idle = !handling_ && !writing_ && jobs_ == 0 && answers_.empty();
    if (idle && (broken_ || reads_done_ || draining_ || !end_error_.ok())) {
      finished_ = true;
      Finish(EndStatus());
      return;
    }
    if (!writing_ && !answers_.empty() && !HoldAnswers()) {
      writing_ = true;
      unread_.BeginWrite();
      written_ = ToBytes(answers_.Take());
      auto options = grpc::WriteOptions();
      if (answers_.MayKeepTaken()) options.set_buffer_hint();
      StartWrite(&written_, options);
    }
    const bool may_read = !reads_ended_ && !broken_ && !draining_ && end_error_.ok() &&
                          !answers_.full() && arrived_.has_room();
    const bool may_wait = jobs_ < kJobsMax && job_bytes_ < kJobBytesMax;
    if (!reading_ && may_read && may_wait) {
      reading_ = true;
      if (!handling_) BeginWait(Clock::now());
      StartRead(&request_);
    }
  }

  // The server has nothing to do until a message comes. REQUIRES: mutex_ held.
  void BeginWait(Time now) {
    wait_begin_ = now;
    pace_.BeginWait(now);
  }

  // Whether what could be sent waits for more. While messages are handled, whoever does that looks
  // at the time; an alarm each millisecond took 8 % of the CPU for updates of 1 KB.
  // REQUIRES: mutex_ held.
  bool HoldAnswers() {
    if (reads_ended_ || draining_ || !end_error_.ok() || !answers_.Holds(Clock::now())) {
      return false;
    }
    if (!handling_ && !std::exchange(alarm_is_set_, true)) {
      alarm_.emplace();
      alarm_->Set(std::chrono::system_clock::now() + AnswerHold::kTime,
                  [weak = weak_from_this()](bool) {  // a call has its alarm
                    if (const auto call = weak.lock()) call->SendHeldAnswers();
                  });
    }
    return true;
  }

  void SendHeldAnswers() {
    const std::lock_guard lock(mutex_);
    alarm_is_set_ = false;
    if (answers_.empty() || handling_) return;
    answers_.hold().TimeIsUp(answers_.size(),
                             reading_ ? Clock::now() - wait_begin_ : Clock::duration::zero());
    Step();
  }

  grpc::Status EndStatus() const {
    if (broken_) return grpc::Status(grpc::StatusCode::CANCELLED, "cancelled by the caller");
    if (!end_error_.ok()) return ToGrpcStatus(end_error_);
    return reads_done_ ? grpc::Status::OK : ToGrpcStatus(DrainingError());
  }

  AdmittedCall admitted_;
  Engine& engine_;  // of the caller's tenant
  Background& background_;
  Background& commits_;
  std::optional<CallCounter::Entry> call_entry_;  // until OnDone
  std::shared_ptr<StreamUpdatesCall> self_;       // until OnDone

  grpc::ByteBuffer request_;  // the reading side's

  // Only the handling side; and, while nobody handles messages, whoever holds mutex_.
  std::deque<grpc::ByteBuffer> taken_;
  std::vector<std::pair<v1::StreamUpdatesResponse, AnswerQueue::When>> outcomes_;
  bool takes_more_ = false;
  StreamUploads uploads_;
  RefusedUpdates refused_;

  std::mutex mutex_;
  AnswerQueue answers_;
  grpc::ByteBuffer written_;
  bool reading_ = false;
  ReadAhead arrived_;
  bool handling_ = false;  // somebody handles messages, until none has arrived
  bool writing_ = false;
  UnreadLimit unread_;
  Time wait_begin_;
  bool alarm_is_set_ = false;
  std::optional<grpc::Alarm> alarm_;  // when none is held any longer
  StreamPace pace_;
  absl::Status end_error_;  // why the server ends the call
  size_t jobs_ = 0;
  uint64_t job_bytes_ = 0;    // of their updates
  bool reads_ended_ = false;  // the caller closed its side
  bool reads_done_ = false;   // and all that came before is handled
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
