#include "service/rpc/wait_round.h"

#include <gtest/gtest.h>

#include <future>

#include "base/status.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_server.h"

namespace sparseagg {
namespace {

class WaitRoundTest : public testing::RpcTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(client_.Create(testing::VectorRound("t", 10), "r").ok());
    request_.set_name("rounds/r");
  }

  std::future<absl::StatusOr<v1::Round>> WaitAsync() {
    return std::async(std::launch::async, [this] { return client_.Wait(request_); });
  }

  absl::StatusOr<v1::Receipt> SubmitOne() {
    return client_.Submit(
        testing::VectorUpdate("rounds/r", "a", testing::VectorEntries("t", 10, {1}, {1})));
  }

  v1::WaitRoundRequest request_;
};

TEST_F(WaitRoundTest, ReturnsWhenTheRoundIsPublished) {
  request_.mutable_timeout()->set_seconds(testing::kCallSecondsMax);
  auto answer = WaitAsync();
  ASSERT_TRUE(client_.Seal("rounds/r").ok());
  const auto round = answer.get();
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_EQ(round->state(), v1::ROUND_STATE_PUBLISHED);
}

TEST_F(WaitRoundTest, ReturnsWhenTheRevisionIsNewer) {
  request_.set_after_revision(client_.Get("rounds/r")->revision());
  request_.mutable_timeout()->set_seconds(testing::kCallSecondsMax);
  auto answer = WaitAsync();
  ASSERT_TRUE(SubmitOne().ok());
  const auto round = answer.get();
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_EQ(round->state(), v1::ROUND_STATE_OPEN);
  EXPECT_GT(round->revision(), request_.after_revision());
}

TEST_F(WaitRoundTest, ReturnsTheStateAsItIsAtTheTimeout) {
  request_.mutable_timeout()->set_nanos(1'000'000);
  const auto round = client_.Wait(request_);
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_EQ(round->state(), v1::ROUND_STATE_OPEN);
}

TEST_F(WaitRoundTest, AZeroTimeoutReturnsAtOnce) {
  request_.mutable_timeout();
  EXPECT_TRUE(client_.Wait(request_).ok());
}

TEST_F(WaitRoundTest, AFinalStateReturnsAtOnce) {
  ASSERT_TRUE(client_.Abort("rounds/r").ok());
  EXPECT_EQ(client_.Wait(request_)->state(), v1::ROUND_STATE_ABORTED);
}

TEST_F(WaitRoundTest, RefusesANegativeTimeout) {
  request_.mutable_timeout()->set_seconds(-1);
  EXPECT_EQ(ErrorReason(client_.Wait(request_).status()), "INVALID_DURATION");
}

TEST_F(WaitRoundTest, NamesARoundThatDoesNotExist) {
  request_.set_name("rounds/other");
  EXPECT_EQ(ErrorReason(client_.Wait(request_).status()), "ROUND_NOT_FOUND");
}

TEST_F(WaitRoundTest, EndsWhenTheServerDrains) {
  request_.mutable_timeout()->set_seconds(testing::kCallSecondsMax);
  auto answer = WaitAsync();
  server_.grpc().Drain();
  const absl::Status ended = answer.get().status();
  EXPECT_EQ(ErrorReason(ended), "SERVER_DRAINING");
  EXPECT_GT(RetryAfterMs(ended), 0);
}

TEST_F(WaitRoundTest, CancelledWaitsLeaveTheServerServing) {
  request_.mutable_timeout()->set_seconds(testing::kCallSecondsMax);
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(1));
    v1::Round round;
    EXPECT_FALSE(client_.stub().WaitRound(&context, request_, &round).ok());
  }
  EXPECT_TRUE(SubmitOne().ok());
}

}  // namespace
}  // namespace sparseagg
