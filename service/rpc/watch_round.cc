#include "service/rpc/watch_round.h"

#include <grpcpp/alarm.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "service/rpc/round_proto.h"
#include "service/rpc/status_table.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kMinIntervalDefault{100};
constexpr milliseconds kMinIntervalMax{3'600'000};

// At most one operation (a write or Finish) is under way; whoever ends it decides on the next, in
// Step(). Operations are started under the mutex: gRPC runs reactions on its own threads, never
// inside a Start call.
class WatchRoundCall : public grpc::ServerWriteReactor<v1::Round>,
                       public DrainableCall,
                       public std::enable_shared_from_this<WatchRoundCall> {
 public:
  WatchRoundCall(std::string name, CallCounter& calls)
      : name_(std::move(name)), call_entry_(calls) {}

  void Begin(Engine& engine, DrainList& drain_list, const v1::WatchRoundRequest& request) {
    self_ = shared_from_this();
    if (const absl::Status status = Subscribe(engine, request); !status.ok()) {
      const std::lock_guard lock(mutex_);
      End(status);
      return;
    }
    drain_list.Add(self_);
  }

  void Drain() override {
    const std::lock_guard lock(mutex_);
    End(DrainingError());
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) End(absl::CancelledError("the reader is gone"));
    Step();
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    End(absl::CancelledError("cancelled by the caller"));
  }

  void OnDone() override {
    WatchHandle subscription;
    {
      const std::lock_guard lock(mutex_);
      subscription = std::move(subscription_);
      alarm_.reset();  // cancels it
    }
    subscription.reset();  // outside the lock: may wait for OnChange() to return
    call_entry_.reset();
    const auto last = std::move(self_);
  }

 private:
  absl::Status Subscribe(Engine& engine, const v1::WatchRoundRequest& request) {
    SPARSEAGG_ASSIGN_OR_RETURN(
        min_interval_,
        ToMilliseconds(request.has_min_interval() ? &request.min_interval() : nullptr,
                       "min_interval", kMinIntervalDefault, kMinIntervalMax));
    SPARSEAGG_ASSIGN_OR_RETURN(
        WatchHandle handle, engine.Watch(name_, [this](const std::optional<RoundSnapshot>& round) {
          OnChange(round);
        }));
    // Read after subscribing, so that no change falls between the two.
    absl::StatusOr<RoundSnapshot> now = engine.GetRound(name_);
    {
      const std::lock_guard lock(mutex_);
      subscription_ = std::move(handle);
    }
    if (!now.ok()) return now.status();
    OnChange(*std::move(now));
    return absl::OkStatus();
  }

  void OnChange(const std::optional<RoundSnapshot>& round) {
    const std::lock_guard lock(mutex_);
    if (!round.has_value()) {
      End(MakeError(absl::StatusCode::kNotFound, "ROUND_NOT_FOUND",
                    "round \"" + name_ + "\" was deleted"));
      return;
    }
    // Notifications of two threads may overtake each other; the revision tells which is newer.
    if (end_) return;
    if (seen_any_ && round->revision <= seen_revision_) return;
    seen_any_ = true;
    seen_revision_ = round->revision;
    pending_ = ToProto(*round);
    pending_is_final_ = IsFinal(round->state);
    Step();
  }

  // REQUIRES: mutex_ held. Ends the call after the write under way; the first reason counts.
  void End(const absl::Status& status) {
    if (!end_) end_ = ToGrpcStatus(status);
    pending_.reset();
    Step();
  }

  // REQUIRES: mutex_ held.
  void Step() {
    if (writing_ || finished_) return;
    if (!pending_ && end_) {
      finished_ = true;
      Finish(*end_);
      return;
    }
    if (!pending_) return;
    const auto now = Clock::now();
    if (now < next_write_ && !pending_is_final_) {
      ArmAlarm(std::chrono::ceil<milliseconds>(next_write_ - now));
      return;
    }
    message_ = *std::exchange(pending_, std::nullopt);
    if (pending_is_final_) end_ = grpc::Status::OK;
    next_write_ = now + min_interval_;
    writing_ = true;
    StartWrite(&message_);
  }

  // REQUIRES: mutex_ held.
  void ArmAlarm(milliseconds delay) {
    if (alarm_ != nullptr) return;
    alarm_ = std::make_unique<grpc::Alarm>();
    const auto deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                       gpr_time_from_millis(delay.count(), GPR_TIMESPAN));
    alarm_->Set(deadline, [call = shared_from_this()](bool fired) {
      if (!fired) return;
      const std::lock_guard lock(call->mutex_);
      call->alarm_.reset();
      call->Step();
    });
  }

  const std::string name_;
  std::optional<CallCounter::Entry> call_entry_;  // until OnDone
  std::shared_ptr<WatchRoundCall> self_;          // until OnDone
  milliseconds min_interval_{};

  std::mutex mutex_;
  WatchHandle subscription_;
  std::unique_ptr<grpc::Alarm> alarm_;  // set while one is armed
  std::optional<v1::Round> pending_;    // the newest state, not yet sent
  bool pending_is_final_ = false;
  bool seen_any_ = false;
  uint64_t seen_revision_ = 0;
  Clock::time_point next_write_{};
  v1::Round message_;  // being written
  bool writing_ = false;
  std::optional<grpc::Status> end_;  // how the call ends once nothing is pending
  bool finished_ = false;
};

}  // namespace

grpc::ServerWriteReactor<v1::Round>* StartWatchRound(Engine& engine, DrainList& drain_list,
                                                     CallCounter& calls,
                                                     const v1::WatchRoundRequest& request) {
  const auto call = std::make_shared<WatchRoundCall>(request.name(), calls);
  call->Begin(engine, drain_list, request);
  return call.get();
}

}  // namespace sparseagg
