#include "service/rpc/watch_round.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "service/rpc/stream/unread_limit.h"
#include "service/rpc/subscribed_call.h"
#include "service/rpc/wire/message_bytes.h"
#include "service/rpc/wire/round_proto.h"
#include "service/rpc/wire/status_table.h"

namespace sparseagg {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kMinIntervalDefault{100};
constexpr milliseconds kMinIntervalMax{3'600'000};

// At most one operation (a write or Finish) is in progress; its end calls Step(), which starts the
// next. Operations are started under the mutex, which is safe because gRPC runs reactions on its
// own threads, never inside a Start call.
class WatchRoundCall : public SubscribedCall<grpc::ServerWriteReactor<grpc::ByteBuffer>> {
 public:
  WatchRoundCall(grpc::CallbackServerContext& context, const AuthorisedCall& call,
                 std::string round, CallCounter& calls)
      : SubscribedCall(call, std::move(round), WatchScope::kEveryChange, calls),
        unread_(context, call.engine->limits()) {}

  void Start(DrainList& drain_list, const v1::WatchRoundRequest& request) {
    const absl::StatusOr<milliseconds> min_interval =
        ToMilliseconds(request.has_min_interval() ? &request.min_interval() : nullptr,
                       "min_interval", kMinIntervalDefault, kMinIntervalMax);
    if (min_interval.ok()) min_interval_ = *min_interval;
    Begin(min_interval.status(), drain_list);
  }

  void CheckTime(Clock::time_point now) override { unread_.Check(now); }

  void OnWriteDone(bool ok) noexcept override {
    unread_.EndWrite();
    const std::lock_guard lock(mutex());
    writing_ = false;
    if (!ok) End(absl::CancelledError("the reader is gone"));
    Step();
  }

 private:
  void OnRound(const RoundSnapshot& round) override {
    if (round.revision <= sent_) return;
    pending_ = true;
    pending_is_final_ = IsFinal(round.state);
    Step();
  }

  void OnAlarm() override { Step(); }

  // After the current write.
  void OnEnd(const absl::Status& status) override {
    end_ = ToGrpcStatus(status);
    pending_ = false;
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
    const absl::StatusOr<RoundSnapshot> newest = GetRound();
    if (!newest.ok()) return End(newest.status());
    pending_ = false;
    sent_ = newest->revision;
    message_ = ToBytes(ToProto(*newest));
    next_write_ = now + min_interval_;
    writing_ = true;
    unread_.BeginWrite();
    StartWrite(&message_);
    if (IsFinal(newest->state)) End(absl::OkStatus());
  }

  milliseconds min_interval_{};
  UnreadLimit unread_;

  // Guarded by mutex().
  bool pending_ = false;  // there is a newer state than the one sent last
  bool pending_is_final_ = false;
  uint64_t sent_ = 0;  // revision
  Clock::time_point next_write_{};
  grpc::ByteBuffer message_;  // being written
  bool writing_ = false;
  std::optional<grpc::Status> end_;  // how the call ends once nothing is pending
  bool finished_ = false;
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartWatchRound(grpc::CallbackServerContext& context,
                                                            const AuthorisedCall& call,
                                                            DrainList& drain_list,
                                                            CallCounter& calls,
                                                            const v1::WatchRoundRequest& request) {
  const auto watch = std::make_shared<WatchRoundCall>(context, call, request.name(), calls);
  watch->Start(drain_list, request);
  return watch.get();
}

}  // namespace sparseagg
