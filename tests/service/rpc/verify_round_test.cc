#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "service/rpc/grpc_server.h"
#include "tests/service/forwarding_engine.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_server.h"

namespace sparseagg {
namespace {

// An engine whose verifications wait until they are released or cancelled.
class WaitingVerifications : public testing::ForwardingEngine {
 public:
  using ForwardingEngine::ForwardingEngine;

  absl::StatusOr<Verification> VerifyRound(std::string_view /*name*/,
                                           std::function<bool()> cancelled) override {
    std::unique_lock lock(mutex_);
    ++begun_;
    if (cancelled()) ++begun_for_nobody_;
    changed_.notify_all();
    while (!may_end_ && !cancelled()) changed_.wait_for(lock, std::chrono::milliseconds(1));
    return Verification{};
  }
  void AwaitBegin() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return begun_ > 0; });
  }
  void LetGo() {
    const std::lock_guard lock(mutex_);
    may_end_ = true;
    changed_.notify_all();
  }
  int begun_for_nobody() {
    const std::lock_guard lock(mutex_);
    return begun_for_nobody_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  int begun_ = 0;
  int begun_for_nobody_ = 0;
  bool may_end_ = false;
};

class VerifyRoundTest : public testing::RpcTest {
 protected:
  static constexpr int kAtATime = 5;

  // One call, on a thread of its own, until it is answered.
  struct Call {
    std::unique_ptr<grpc::ClientContext> context = testing::NewContext();
    std::future<absl::Status> answer;
  };
  Call Verify() {
    Call call;
    call.answer = std::async(std::launch::async, [this, context = call.context.get()] {
      v1::VerifyRoundRequest request;
      request.set_name("rounds/r");
      v1::VerifyRoundResponse response;
      return testing::FromGrpc(patient_.stub().VerifyRound(context, request, &response));
    });
    return call;
  }
  // As many as are allowed, the first of them in progress, and the answer to the one beyond that,
  // which tells that the server has all of them.
  struct FullQueue {
    std::vector<Call> calls;
    absl::Status refused;
  };
  FullQueue VerifyOneTooMany() {
    FullQueue queue;
    std::vector<Call>& calls = queue.calls;
    calls.push_back(Verify());
    engine_.AwaitBegin();
    while (calls.size() < kAtATime + 1) calls.push_back(Verify());
    const auto is_answered = [](const Call& call) {
      return call.answer.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready;
    };
    auto answered = calls.end();
    while (answered == calls.end()) answered = std::ranges::find_if(calls, is_answered);
    queue.refused = answered->answer.get();
    calls.erase(answered);
    return queue;
  }

  WaitingVerifications engine_{server_.engine()};
  std::unique_ptr<GrpcServer> waiting_ = GrpcServer::Start("127.0.0.1:0", engine_, {}, {}).value();
  testing::TestClient patient_{
      testing::NewChannel("127.0.0.1:" + std::to_string(waiting_->port()))};
};

TEST_F(VerifyRoundTest, VerificationsBlockNoOtherCallAndFewWait) {
  auto [calls, refused] = VerifyOneTooMany();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(ErrorReason(refused), "VERIFICATIONS_FULL");
  EXPECT_GT(RetryAfterMs(refused), 0u);

  v1::ReduceRequest start;
  *start.mutable_start()->mutable_spec() = testing::VectorRound("t", 10);
  EXPECT_TRUE(patient_.Reduce({start}).ok());

  engine_.LetGo();
  for (Call& call : calls) EXPECT_TRUE(call.answer.get().ok());
  EXPECT_TRUE(Verify().answer.get().ok());
}

TEST_F(VerifyRoundTest, ACancelledCallIsNotVerified) {
  std::vector<Call> calls = VerifyOneTooMany().calls;
  // The running one is cancelled last: when it ends, the server has seen the other cancellations.
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) call->context->TryCancel();
  for (Call& call : calls) EXPECT_EQ(call.answer.get().code(), absl::StatusCode::kCancelled);
  engine_.LetGo();
  absl::Status last;
  do {
    last = Verify().answer.get();
  } while (ErrorReason(last) == "VERIFICATIONS_FULL");  // of the cancelled ones
  EXPECT_TRUE(last.ok()) << last;
  EXPECT_EQ(engine_.begun_for_nobody(), 0);
}

}  // namespace
}  // namespace sparseagg
