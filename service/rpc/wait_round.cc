#include "service/rpc/wait_round.h"

#include <chrono>
#include <memory>
#include <utility>

#include "service/rpc/subscribed_call.h"
#include "service/rpc/wire/message_bytes.h"
#include "service/rpc/wire/round_proto.h"
#include "service/rpc/wire/status_table.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTimeoutDefault{30'000};
constexpr milliseconds kTimeoutMax{300'000};

class WaitRoundCall : public SubscribedCall<grpc::ServerUnaryReactor> {
 public:
  WaitRoundCall(AuthorisedCall call, const v1::WaitRoundRequest& request,
                grpc::ByteBuffer* response, CallCounter& calls)
      // A call that waits for the final state subscribes to nothing else: thousands may wait while
      // updates arrive.
      : SubscribedCall(std::move(call), request.name(),
                       request.after_revision() > 0 ? WatchScope::kEveryChange : WatchScope::kEnd,
                       calls),
        after_revision_(request.after_revision()),
        response_(response) {}

  void Start(DrainList& drain_list, const v1::WaitRoundRequest& request) {
    const absl::StatusOr<milliseconds> timeout =
        ToMilliseconds(request.has_timeout() ? &request.timeout() : nullptr, "timeout",
                       kTimeoutDefault, kTimeoutMax);
    Begin(timeout.status(), drain_list);
    const std::lock_guard lock(mutex());
    if (timeout.ok()) ArmAlarm(*timeout);
  }

 private:
  void OnRound(const RoundSnapshot& round) override {
    if (IsFinal(round.state) || (after_revision_ > 0 && round.revision > after_revision_)) {
      Answer(round);
    }
  }

  void OnAlarm() override {
    const absl::StatusOr<RoundSnapshot> latest = GetRound();
    if (!latest.ok()) return End(latest.status());
    Answer(*latest);
  }

  void OnEnd(const absl::Status& status) override { Finish(ToGrpcStatus(status)); }

  void Answer(const RoundSnapshot& round) {
    *response_ = ToBytes(ToProto(round));
    End(absl::OkStatus());
  }

  const uint64_t after_revision_;
  grpc::ByteBuffer* const response_;
};

}  // namespace

grpc::ServerUnaryReactor* StartWaitRound(AuthorisedCall call, DrainList& drain_list,
                                         CallCounter& calls, const v1::WaitRoundRequest& request,
                                         grpc::ByteBuffer* response) {
  const auto wait = std::make_shared<WaitRoundCall>(std::move(call), request, response, calls);
  wait->Start(drain_list, request);
  return wait.get();
}

}  // namespace sparseagg
