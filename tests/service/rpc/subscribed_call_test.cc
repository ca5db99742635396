// Calls that wait for a round keep none of its states, and read the state when they answer.
#include "service/rpc/subscribed_call.h"

#include <gtest/gtest.h>

#include "service/rpc/grpc_server.h"
#include "tests/service/forwarding_engine.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_server.h"

namespace sparseagg::testing {
namespace {

// An engine that aborts the round after it was read, without a notification.
class SilentEngine : public ForwardingEngine {
 public:
  using ForwardingEngine::ForwardingEngine;
  absl::StatusOr<WatchHandle> Watch(
      std::string_view, WatchScope,
      std::function<void(const std::optional<RoundSnapshot>&)>) override {
    return WatchHandle();
  }
  absl::StatusOr<RoundSnapshot> GetRound(std::string_view name) override {
    auto before = ForwardingEngine::GetRound(name);
    EXPECT_TRUE(AbortRound(name).ok());
    return before;
  }
};

class SubscribedCallTest : public RpcTest {
 protected:
  void SetUp() override { ASSERT_TRUE(client_.Create(VectorRound("t", 10), "r").ok()); }

  SilentEngine silent_{server_.engine()};
  const std::unique_ptr<GrpcServer> grpc_ = GrpcServer::Start("127.0.0.1:0", silent_, {}).value();
  TestClient waiting_{NewChannel("127.0.0.1:" + std::to_string(grpc_->port()))};
};

TEST_F(SubscribedCallTest, WaitRoundAnswersWithTheStateAtItsTimeout) {
  v1::WaitRoundRequest request;
  request.set_name("rounds/r");
  request.mutable_timeout()->set_nanos(1'000'000);
  const auto round = waiting_.Wait(request);
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_EQ(round->state(), v1::ROUND_STATE_ABORTED);
}

TEST_F(SubscribedCallTest, WatchRoundSendsTheStateOfTheMomentAndEndsAfterTheFinalOne) {
  v1::WatchRoundRequest request;
  request.set_name("rounds/r");
  const auto context = NewContext();
  const auto reader = waiting_.stub().WatchRound(context.get(), request);
  v1::Round round;
  ASSERT_TRUE(reader->Read(&round));
  EXPECT_EQ(round.state(), v1::ROUND_STATE_ABORTED);
  EXPECT_FALSE(reader->Read(&round));
  EXPECT_TRUE(reader->Finish().ok());
}

}  // namespace
}  // namespace sparseagg::testing
