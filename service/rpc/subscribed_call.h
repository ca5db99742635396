// The common base of WatchRound and WaitRound: a call that subscribes to a round, holds no thread
// while it waits, and lasts until the round, the caller, an alarm or a stopping server ends it. The
// subclass decides what a state of the round means for its answer. A waiting call keeps no state of
// the round, because states are large.
#ifndef SPARSEAGG_SERVICE_RPC_SUBSCRIBED_CALL_H_
#define SPARSEAGG_SERVICE_RPC_SUBSCRIBED_CALL_H_

#include <grpcpp/alarm.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "service/engine/engine.h"
#include "service/rpc/call_authoriser.h"
#include "service/rpc/call_counter.h"
#include "service/rpc/drain_list.h"
#include "service/rpc/wire/status_table.h"

namespace sparseagg {

// `Reactor` is one of gRPC's server reactors. REQUIRES: made with std::make_shared. It keeps itself
// alive from Begin() to OnDone(), and while an alarm is set.
template <class Reactor>
class SubscribedCall : public Reactor,
                       public DrainableCall,
                       public std::enable_shared_from_this<SubscribedCall<Reactor>> {
 public:
  // `engine` must outlive the call.
  SubscribedCall(AuthorisedCall call, std::string round, WatchScope what, CallCounter& calls)
      : engine_(*call.engine),
        place_(std::move(call.place)),
        round_(std::move(round)),
        what_(what),
        call_entry_(calls) {}

  // Passes the state of the round to OnRound(), then each newer one that `what` selects. The call
  // ends at once if `request`, the outcome of checking the arguments, is an error, or if there is
  // no such round.
  void Begin(const absl::Status& request, DrainList& drain_list) {
    self_ = this->shared_from_this();
    const absl::Status status = request.ok() ? Subscribe() : request;
    if (status.ok()) return drain_list.Add(self_);
    const std::lock_guard lock(mutex_);
    End(status);
  }

  void Drain() final {
    const std::lock_guard lock(mutex_);
    End(DrainingError());
  }

  void OnCancel() noexcept final {
    const std::lock_guard lock(mutex_);
    End(absl::CancelledError("cancelled by the caller"));
  }

  void OnDone() noexcept final {
    WatchHandle subscription;
    {
      const std::lock_guard lock(mutex_);
      subscription = std::move(subscription_);
      alarm_.reset();  // cancels it
    }
    subscription.reset();  // outside the lock, because it may wait for OnChange() to return
    place_.reset();
    call_entry_.reset();
    const auto last = std::move(self_);
  }

 protected:
  // The hooks are called with mutex() held.
  //
  // Called for each state that is newer than the last; never after the end.
  virtual void OnRound(const RoundSnapshot& round) = 0;
  // Called when the alarm has fired; never after the end.
  virtual void OnAlarm() = 0;
  // Called once, at the end.
  virtual void OnEnd(const absl::Status& status) = 0;

  // Ends the call. Several events can do so; the first one decides the status. REQUIRES, like
  // ArmAlarm(): mutex() is held.
  void End(const absl::Status& status) {
    if (std::exchange(ended_, true)) return;
    OnEnd(status);
  }

  // Sets the alarm, unless one is set or the call has ended.
  void ArmAlarm(std::chrono::milliseconds delay) {
    if (alarm_ != nullptr || ended_) return;
    alarm_ = std::make_unique<grpc::Alarm>();
    const auto deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                       gpr_time_from_millis(delay.count(), GPR_TIMESPAN));
    alarm_->Set(deadline, [call = this->shared_from_this()](bool fired) {
      if (!fired) return;
      const std::lock_guard lock(call->mutex_);
      call->alarm_.reset();
      if (!call->ended_) call->OnAlarm();
    });
  }

  // The round's current state.
  absl::StatusOr<RoundSnapshot> GetRound() { return engine_.GetRound(round_); }

  // Guards the fields of the subclass, too.
  std::mutex& mutex() { return mutex_; }

 private:
  absl::Status Subscribe() {
    SPARSEAGG_ASSIGN_OR_RETURN(
        WatchHandle handle,
        engine_.Watch(round_, what_,
                      [this](const std::optional<RoundSnapshot>& round) { OnChange(round); }));
    // Read after subscribing, so that no change is missed between the two.
    absl::StatusOr<RoundSnapshot> now = GetRound();
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
      return End(MakeError(absl::StatusCode::kNotFound, "ROUND_NOT_FOUND",
                           "round \"" + round_ + "\" was deleted"));
    }
    // Notifications from two threads may arrive out of order; the revision shows which is newer.
    if (ended_ || (revision_.has_value() && round->revision <= *revision_)) return;
    revision_ = round->revision;
    OnRound(*round);
  }

  Engine& engine_;
  std::shared_ptr<void> place_;  // until OnDone
  const std::string round_;
  const WatchScope what_;
  std::optional<CallCounter::Entry> call_entry_;  // until OnDone
  std::shared_ptr<SubscribedCall> self_;          // until OnDone

  std::mutex mutex_;  // guards what follows
  WatchHandle subscription_;
  std::unique_ptr<grpc::Alarm> alarm_;  // set while one is armed
  std::optional<uint64_t> revision_;    // of the newest state seen
  bool ended_ = false;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_SUBSCRIBED_CALL_H_
