#include "service/rpc/watch_round.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "service/rpc/message_bytes.h"
#include "service/rpc/round_proto.h"
#include "service/rpc/status_table.h"
#include "service/rpc/subscribed_call.h"

namespace sparseagg {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kMinIntervalDefault{100};
constexpr milliseconds kMinIntervalMax{3'600'000};

// At most one operation (a write or Finish) is under way; whoever ends it decides on the next, in
// Step(). Operations are started under the mutex: gRPC runs reactions on its own threads, never
// inside a Start call.
class WatchRoundCall : public SubscribedCall<grpc::ServerWriteReactor<grpc::ByteBuffer>> {
 public:
  WatchRoundCall(std::string round, CallCounter& calls) : SubscribedCall(std::move(round), calls) {}

  void Start(Engine& engine, DrainList& drain_list, const v1::WatchRoundRequest& request) {
    const absl::StatusOr<milliseconds> min_interval =
        ToMilliseconds(request.has_min_interval() ? &request.min_interval() : nullptr,
                       "min_interval", kMinIntervalDefault, kMinIntervalMax);
    if (min_interval.ok()) min_interval_ = *min_interval;
    Begin(min_interval.status(), engine, drain_list);
  }

  void OnWriteDone(bool ok) noexcept override {
    const std::lock_guard lock(mutex());
    writing_ = false;
    if (!ok) End(absl::CancelledError("the reader is gone"));
    Step();
  }

 private:
  void OnRound(const RoundSnapshot& round) override {
    pending_ = ToProto(round);
    pending_is_final_ = IsFinal(round.state);
    Step();
  }

  void OnAlarm() override { Step(); }

  // After the write under way.
  void OnEnd(const absl::Status& status) override {
    end_ = ToGrpcStatus(status);
    pending_.reset();
    Step();
  }

  // REQUIRES: mutex() held.
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
    message_ = ToBytes(*std::exchange(pending_, std::nullopt));
    next_write_ = now + min_interval_;
    writing_ = true;
    StartWrite(&message_);
    if (pending_is_final_) End(absl::OkStatus());
  }

  milliseconds min_interval_{};

  // Guarded by mutex().
  std::optional<v1::Round> pending_;  // the newest state, not yet sent
  bool pending_is_final_ = false;
  Clock::time_point next_write_{};
  grpc::ByteBuffer message_;  // being written
  bool writing_ = false;
  std::optional<grpc::Status> end_;  // how the call ends once nothing is pending
  bool finished_ = false;
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartWatchRound(Engine& engine, DrainList& drain_list,
                                                            CallCounter& calls,
                                                            const v1::WatchRoundRequest& request) {
  const auto call = std::make_shared<WatchRoundCall>(request.name(), calls);
  call->Start(engine, drain_list, request);
  return call.get();
}

}  // namespace sparseagg
