#include "service/rpc/stream/stream_updates.h"

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

#include "service/rpc/stream/answer_queue.h"
#include "service/rpc/stream/read_ahead.h"
#include "service/rpc/stream/stream_messages.h"
#include "service/rpc/stream/stream_pace.h"
#include "service/rpc/stream/unread_limit.h"
#include "service/rpc/wire/message_bytes.h"
#include "service/rpc/wire/received_update.h"
#include "service/rpc/wire/status_table.h"
#include "service/rpc/wire/update_proto.h"

namespace sparseagg {
namespace {

// Updates of a stream that are counted on other threads while it goes on; those of the message that
// was handled last come on top.
constexpr size_t kJobsMax = 64;
constexpr uint64_t kJobBytesMax = uint64_t{16} << 20;

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

// The flags under the mutex say what is under way; Step() starts what can start. Operations are
// started under the mutex: gRPC runs reactions on its own threads, never inside a Start call.
class StreamUpdatesCall : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                          public DrainableCall,
                          private MessageStream,
                          public std::enable_shared_from_this<StreamUpdatesCall> {
 public:
  StreamUpdatesCall(grpc::CallbackServerContext& context, AdmittedCall admitted,
                    Background& background, Background& commits, CallCounter& calls)
      : admitted_(std::move(admitted)),
        commits_(commits),
        call_entry_(calls),
        messages_(admitted_, background, commits, *this),
        unread_(context, admitted_.engine->limits()),
        pace_(admitted_.engine->limits()) {}

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
    end_error_ = pace_.CheckIdle(now, messages_.uploading());
    if (end_error_.ok()) return;
    messages_.RefuseUploads(end_error_);
    QueueOutcomes();
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
      if (!GoOnHandling()) return Step();  // whoever handles the one before comes to it
    }
    HandleArrived(/*waited=*/true);
  }

  void OnWriteDone(bool ok) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
      unread_.EndWrite();
      pace_.BeginWait(Clock::now());  // the client may have waited for this
      if (!ok) broken_ = true;
      if (!GoOnHandling()) return Step();
    }
    HandleArrived(/*waited=*/false);
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
  // Handles what has come, until nothing is left or it has to wait. `waited`: nothing was there
  // before.
  void HandleArrived(bool waited) {
    do {
      // A batch may have brought many answers, or jobs: look before the next one.
      for (bool after_batch = false; !taken_.empty() && !after_batch;) {
        if (!HandleMessage(after_batch)) return;
      }
    } while (TakeArrived(std::exchange(waited, false)));
  }

  // False: nothing is left, or it has to wait; nobody handles messages any more.
  bool TakeArrived(bool waited) {
    std::unique_lock lock(mutex_);
    QueueOutcomes();
    if (broken_) {
      taken_.clear();
      arrived_.Clear();
    }
    if (!MayHandle() && !(taken_.empty() && arrived_.empty())) {
      handling_ = false;  // GoOnHandling()
      Step();
      return false;
    }
    if (!taken_.empty()) {
      Step();
      return true;
    }
    const Time now = Clock::now();
    arrived_.Handled();
    if (arrived_.empty() && reads_ended_) {
      lock.unlock();
      messages_.End();
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
    const absl::Status pace = pace_.EndWait(now, arrived_.handled_bytes(), messages_.uploading());
    Step();
    lock.unlock();
    if (!pace.ok()) messages_.RefuseUploads(pace);
    return true;
  }

  // Whether there is room for what another message brings. REQUIRES: mutex_ held.
  bool MayHandle() const {
    return !answers_.full() && jobs_ < kJobsMax && job_bytes_ < kJobBytesMax;
  }

  // True: something is to be handled, which the caller does now. REQUIRES: mutex_ held.
  bool GoOnHandling() {
    if (handling_ || finished_ || broken_ || !MayHandle()) return false;
    handling_ = !taken_.empty() || !arrived_.empty() || (reads_ended_ && !reads_done_);
    return handling_;
  }

  // The first one taken. False: on another thread, which goes on with HandleArrived() then.
  bool HandleMessage(bool& was_batch) {
    MessageBytes bytes(taken_.front());
    taken_.pop_front();
    absl::StatusOr<ReceivedStreamMessage> message = ReadStreamUpdates(bytes.chain());
    if (!message.ok()) {
      Answer(ToAnswer("", message.status()), AnswerQueue::kAtOnce);
      return true;
    }
    ShortenUpdateIds(*message);
    if (message->takes_more && !std::exchange(takes_more_, true)) {
      const std::lock_guard lock(mutex_);
      answers_.SendTogether();
    }
    was_batch = std::holds_alternative<ReceivedBatch>(message->body);
    return messages_.Handle(std::move(bytes), *std::move(message));
  }

  bool RunInTurn(bool waits_for_disk, std::function<void()> handle) override {
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

  void RunJob(Background& background, uint64_t bytes, std::function<void()> job) override {
    {
      const std::lock_guard lock(mutex_);
      QueueOutcomes();  // before that of the job
      ++jobs_;
      job_bytes_ += bytes;
    }
    background.Run([call = shared_from_this(), bytes, job = std::move(job)]() mutable {
      job();
      job = nullptr;
      call->EndJob(bytes);
    });
  }

  void EndJob(uint64_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      --jobs_;
      job_bytes_ -= bytes;
      pace_.BeginWait(Clock::now());
      if (!GoOnHandling()) return Step();
    }
    HandleArrived(/*waited=*/false);
  }

  // Queued with the others when all that were taken are handled.
  void Answer(v1::StreamUpdatesResponse answer, AnswerQueue::When when) override {
    outcomes_.push_back({std::move(answer), when});
  }

  void AnswerFromJob(v1::StreamUpdatesResponse answer, AnswerQueue::When when) override {
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
                          arrived_.has_room() && MayHandle();
    if (!reading_ && may_read) {
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
  Background& commits_;
  std::optional<CallCounter::Entry> call_entry_;  // until OnDone
  std::shared_ptr<StreamUpdatesCall> self_;       // until OnDone

  grpc::ByteBuffer request_;  // the reading side's

  // Only the handling side; and, while nobody handles messages, whoever holds mutex_.
  std::deque<grpc::ByteBuffer> taken_;
  std::vector<std::pair<v1::StreamUpdatesResponse, AnswerQueue::When>> outcomes_;
  bool takes_more_ = false;
  StreamMessages messages_;

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
