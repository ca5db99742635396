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

#include "service/rpc/stream/read_ahead.h"
#include "service/rpc/stream/response_queue.h"
#include "service/rpc/stream/stream_messages.h"
#include "service/rpc/stream/stream_pace.h"
#include "service/rpc/stream/unread_limit.h"
#include "service/rpc/wire/message_bytes.h"
#include "service/rpc/wire/received_update.h"
#include "service/rpc/wire/status_table.h"
#include "service/rpc/wire/update_proto.h"

namespace sparseagg {
namespace {

// The most updates of a stream that other threads handle while it keeps reading. The updates of the
// last message may exceed it.
constexpr size_t kJobsMax = 64;
constexpr uint64_t kJobBytesMax = uint64_t{16} << 20;

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

// The flags under the mutex show which operations are in progress; Step() starts those that can
// start. Operations are started under the mutex, which is safe because gRPC runs reactions on its
// own threads, never inside a Start call.
class StreamUpdatesCall : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                          public DrainableCall,
                          private MessageStream,
                          public std::enable_shared_from_this<StreamUpdatesCall> {
 public:
  StreamUpdatesCall(grpc::CallbackServerContext& context, AuthorisedCall call,
                    Background& background, Background& commits, CallCounter& calls)
      : call_(std::move(call)),
        commits_(commits),
        call_entry_(calls),
        messages_(call_, background, commits, *this),
        unread_(context, call_.engine->limits()),
        pace_(call_.engine->limits()) {}

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

  // Ends a stream whose client keeps the server waiting, for a message or for reading the answers.
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
      // The call has ended; the message is dropped.
      if (finished_ || !end_error_.ok()) return;
      reading_ = false;
      if (ok) {
        arrived_.Push(request_);
      } else {
        reads_ended_ = true;
      }
      answers_.coalescer().OnMessage(handling_ ? Clock::duration::zero()
                                               : Clock::now() - wait_begin_);
      if (!TryBeginHandling()) return Step();  // the handling thread takes it
    }
    HandleArrived(/*waited=*/true);
  }

  void OnWriteDone(bool ok) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
      unread_.EndWrite();
      pace_.BeginWait(Clock::now());  // the client may have waited for this write
      if (!ok) broken_ = true;
      if (!TryBeginHandling()) return Step();
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
      const std::lock_guard lock(
          mutex_);  // so that the thread that called Finish() has left Step()
    }
    call_.place.reset();
    call_entry_.reset();
    const auto last = std::move(self_);
  }

 private:
  // Handles the messages that have arrived, until none is left or there is no room for more work.
  // `waited`: the server had none before.
  void HandleArrived(bool waited) {
    do {
      // A batch may have made many answers or jobs, so the limits are checked before the next one.
      for (bool after_batch = false; !taken_.empty() && !after_batch;) {
        if (!HandleMessage(after_batch)) return;
      }
    } while (TakeArrived(std::exchange(waited, false)));
  }

  // Returns false, and gives up the handling role, if no message is left or there is no room for
  // more work.
  bool TakeArrived(bool waited) {
    std::unique_lock lock(mutex_);
    QueueOutcomes();
    if (broken_) {
      taken_.clear();
      arrived_.Clear();
    }
    if (!MayHandle() && !(taken_.empty() && arrived_.empty())) {
      handling_ = false;  // TryBeginHandling()
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

  // Whether there is room for the answers and jobs of another message. REQUIRES: mutex_ is held.
  bool MayHandle() const {
    return !answers_.full() && jobs_ < kJobsMax && job_bytes_ < kJobBytesMax;
  }

  // Takes the handling role if there is something to handle and no other thread has it. If true,
  // the caller must call HandleArrived(). REQUIRES: mutex_ is held.
  bool TryBeginHandling() {
    if (handling_ || finished_ || broken_ || !MayHandle()) return false;
    handling_ = !taken_.empty() || !arrived_.empty() || (reads_ended_ && !reads_done_);
    return handling_;
  }

  // Handles the first of taken_. Returns false if another thread does so, which then continues with
  // HandleArrived().
  bool HandleMessage(bool& was_batch) {
    MessageBytes bytes(taken_.front());
    taken_.pop_front();
    absl::StatusOr<ReceivedStreamMessage> message = ReadStreamUpdates(bytes.chain());
    if (!message.ok()) {
      Answer(ToAnswer("", message.status()), ResponseQueue::kAtOnce);
      return true;
    }
    ShortenUpdateIds(*message);
    if (message->takes_more && !std::exchange(takes_more_, true)) {
      const std::lock_guard lock(mutex_);
      answers_.EnableBatches();
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
      answers_.coalescer().SendNow();
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
      QueueOutcomes();  // before the job's answer
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
      if (!TryBeginHandling()) return Step();
    }
    HandleArrived(/*waited=*/false);
  }

  // Kept until the taken messages are handled, and queued then.
  void Answer(v1::StreamUpdatesResponse answer, ResponseQueue::When when) override {
    outcomes_.push_back({std::move(answer), when});
  }

  void AnswerFromJob(v1::StreamUpdatesResponse answer, ResponseQueue::When when) override {
    const std::lock_guard lock(mutex_);
    Queue(std::move(answer), when);
  }

  // REQUIRES: mutex_ held, on the handling side.
  void QueueOutcomes() {
    for (auto& [answer, when] : outcomes_) Queue(std::move(answer), when);
    outcomes_.clear();
  }

  // The caller calls Step() afterwards. REQUIRES: mutex_ is held.
  void Queue(v1::StreamUpdatesResponse answer, ResponseQueue::When when) {
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
    if (!writing_ && !answers_.empty() && !AnswersShouldWait()) {
      writing_ = true;
      unread_.BeginWrite();
      written_ = ToBytes(answers_.Take());
      auto options = grpc::WriteOptions();
      if (answers_.MayBufferTaken()) options.set_buffer_hint();
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

  // The server begins to wait for a message. REQUIRES: mutex_ is held.
  void BeginWait(Time now) {
    wait_begin_ = now;
    pace_.BeginWait(now);
  }

  // Whether the queued answers wait for more. While messages are handled, the handling thread
  // checks the time, since an alarm each millisecond took 8 % of the CPU with updates of 1 KB.
  // REQUIRES: mutex_ is held.
  bool AnswersShouldWait() {
    if (reads_ended_ || draining_ || !end_error_.ok() || !answers_.ShouldWait(Clock::now())) {
      return false;
    }
    if (!handling_ && !std::exchange(alarm_is_set_, true)) {
      alarm_.emplace();
      alarm_->Set(std::chrono::system_clock::now() + ResponseCoalescer::kMaxDelay,
                  [weak = weak_from_this()](bool) {  // weak, because the call owns the alarm
                    if (const auto call = weak.lock()) call->SendWaitingAnswers();
                  });
    }
    return true;
  }

  void SendWaitingAnswers() {
    const std::lock_guard lock(mutex_);
    alarm_is_set_ = false;
    if (answers_.empty() || handling_) return;
    answers_.coalescer().OnMaxDelay(
        answers_.size(), reading_ ? Clock::now() - wait_begin_ : Clock::duration::zero());
    Step();
  }

  grpc::Status EndStatus() const {
    if (broken_) return grpc::Status(grpc::StatusCode::CANCELLED, "cancelled by the caller");
    if (!end_error_.ok()) return ToGrpcStatus(end_error_);
    return reads_done_ ? grpc::Status::OK : ToGrpcStatus(DrainingError());
  }

  AuthorisedCall call_;
  Background& commits_;
  std::optional<CallCounter::Entry> call_entry_;  // until OnDone
  std::shared_ptr<StreamUpdatesCall> self_;       // until OnDone

  grpc::ByteBuffer request_;  // owned by the read operation

  // Owned by the handling thread; while there is none (!handling_), guarded by mutex_.
  std::deque<grpc::ByteBuffer> taken_;
  std::vector<std::pair<v1::StreamUpdatesResponse, ResponseQueue::When>> outcomes_;
  bool takes_more_ = false;
  StreamMessages messages_;

  std::mutex mutex_;
  ResponseQueue answers_;
  grpc::ByteBuffer written_;
  bool reading_ = false;
  ReadAhead arrived_;
  bool handling_ = false;  // a thread handles messages
  bool writing_ = false;
  UnreadLimit unread_;
  Time wait_begin_;
  bool alarm_is_set_ = false;
  std::optional<grpc::Alarm> alarm_;  // sends the answers that wait
  StreamPace pace_;
  absl::Status end_error_;  // why the server ends the call
  size_t jobs_ = 0;
  uint64_t job_bytes_ = 0;    // memory that the jobs hold
  bool reads_ended_ = false;  // the caller closed its side
  bool reads_done_ = false;   // and all messages before that are handled
  bool draining_ = false;
  bool broken_ = false;  // the client no longer reads answers
  bool finished_ = false;
};

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartStreamUpdates(
    grpc::CallbackServerContext& context, AuthorisedCall authorised, Background& background,
    Background& commits, DrainList& drain_list, CallCounter& calls) {
  const auto call = std::make_shared<StreamUpdatesCall>(context, std::move(authorised), background,
                                                        commits, calls);
  call->Begin(drain_list);
  return call.get();
}

}  // namespace sparseagg
