#include "service/rpc/wait_round.h"

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

using std::chrono::milliseconds;

constexpr milliseconds kTimeoutDefault{30'000};
constexpr milliseconds kTimeoutMax{300'000};

// Four things can end the wait (a change, the timeout, a cancellation, a stopping server); End()
// lets the first win.
class WaitRoundCall : public grpc::ServerUnaryReactor,
                      public DrainableCall,
                      public std::enable_shared_from_this<WaitRoundCall> {
 public:
  WaitRoundCall(const v1::WaitRoundRequest& request, v1::Round* response, CallCounter& calls)
      : name_(request.name()),
        after_revision_(request.after_revision()),
        response_(response),
        call_entry_(calls) {}

  void Begin(Engine& engine, DrainList& drain_list, const v1::WaitRoundRequest& request) {
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
  absl::Status Subscribe(Engine& engine, const v1::WaitRoundRequest& request) {
    SPARSEAGG_ASSIGN_OR_RETURN(const milliseconds timeout,
                               ToMilliseconds(request.has_timeout() ? &request.timeout() : nullptr,
                                              "timeout", kTimeoutDefault, kTimeoutMax));
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
    const std::lock_guard lock(mutex_);
    if (!ended_) ArmAlarm(timeout);
    return absl::OkStatus();
  }

  void OnChange(const std::optional<RoundSnapshot>& round) {
    const std::lock_guard lock(mutex_);
    if (!round.has_value()) {
      End(MakeError(absl::StatusCode::kNotFound, "ROUND_NOT_FOUND",
                    "round \"" + name_ + "\" was deleted"));
      return;
    }
    if (ended_) return;
    if (latest_ && round->revision < latest_->revision()) return;  // overtaken by a newer one
    latest_ = ToProto(*round);
    if (IsFinal(round->state) || (after_revision_ > 0 && round->revision > after_revision_))
      End(absl::OkStatus());
  }

  // REQUIRES: mutex_ held.
  void ArmAlarm(milliseconds timeout) {
    alarm_ = std::make_unique<grpc::Alarm>();
    const auto deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                       gpr_time_from_millis(timeout.count(), GPR_TIMESPAN));
    alarm_->Set(deadline, [call = shared_from_this()](bool fired) {
      if (!fired) return;
      const std::lock_guard lock(call->mutex_);
      call->End(absl::OkStatus());  // with the latest state
    });
  }

  // REQUIRES: mutex_ held.
  void End(const absl::Status& status) {
    if (ended_) return;
    ended_ = true;
    if (status.ok()) *response_ = *std::move(latest_);
    latest_.reset();
    Finish(ToGrpcStatus(status));
  }

  const std::string name_;
  const uint64_t after_revision_;
  v1::Round* const response_;
  std::optional<CallCounter::Entry> call_entry_;  // until OnDone
  std::shared_ptr<WaitRoundCall> self_;           // until OnDone

  std::mutex mutex_;
  WatchHandle subscription_;
  std::unique_ptr<grpc::Alarm> alarm_;
  std::optional<v1::Round> latest_;
  bool ended_ = false;
};

}  // namespace

grpc::ServerUnaryReactor* StartWaitRound(Engine& engine, DrainList& drain_list, CallCounter& calls,
                                         const v1::WaitRoundRequest& request, v1::Round* response) {
  const auto call = std::make_shared<WaitRoundCall>(request, response, calls);
  call->Begin(engine, drain_list, request);
  return call.get();
}

}  // namespace sparseagg
