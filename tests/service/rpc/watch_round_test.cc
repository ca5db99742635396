#include "service/rpc/watch_round.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_server.h"

namespace sparseagg {
namespace {

class WatchRoundTest : public testing::RpcTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(client_.Create(testing::VectorRound("t", 1000), "r").ok());
    request_.set_name("rounds/r");
    request_.mutable_min_interval();  // 0: every change at once
  }

  void Watch() { reader_ = client_.stub().WatchRound(context_.get(), request_); }

  v1::Round Next() {
    v1::Round round;
    EXPECT_TRUE(reader_->Read(&round));
    return round;
  }

  // The rest of the stream.
  std::vector<v1::Round> ReadAll() {
    std::vector<v1::Round> rounds(1);
    while (reader_->Read(&rounds.back())) rounds.emplace_back();
    rounds.pop_back();
    return rounds;
  }

  absl::Status Finish() { return testing::FromGrpc(reader_->Finish()); }

  void SubmitMany(int count) {
    for (int i = 0; i < count; ++i) {
      const auto tensor = testing::VectorEntries("t", 1000, {i}, {1});
      ASSERT_TRUE(
          client_.Submit(testing::VectorUpdate("rounds/r", std::to_string(i), tensor)).ok());
    }
  }

  v1::WatchRoundRequest request_;
  std::unique_ptr<grpc::ClientContext> context_ = testing::NewContext();
  std::unique_ptr<grpc::ClientReader<v1::Round>> reader_;
};

TEST_F(WatchRoundTest, SendsTheStateAtOnceAndEndsAfterTheFinalOne) {
  Watch();
  EXPECT_EQ(Next().state(), v1::ROUND_STATE_OPEN);
  ASSERT_TRUE(client_.Seal("rounds/r").ok());
  const std::vector<v1::Round> rest = ReadAll();
  ASSERT_FALSE(rest.empty());
  EXPECT_EQ(rest.back().state(), v1::ROUND_STATE_PUBLISHED);
  EXPECT_TRUE(rest.back().has_manifest());
  EXPECT_EQ(rest.back().tensors(0).measured_seconds(), 3) << "of tests/service/timed_backend.h";
  EXPECT_TRUE(Finish().ok());
}

TEST_F(WatchRoundTest, APublishedRoundIsSentOnce) {
  ASSERT_TRUE(client_.Publish("rounds/r").ok());
  Watch();
  EXPECT_EQ(ReadAll().size(), 1);
  EXPECT_TRUE(Finish().ok());
}

TEST_F(WatchRoundTest, RevisionsIncrease) {
  Watch();
  SubmitMany(50);
  ASSERT_TRUE(client_.Seal("rounds/r").ok());
  uint64_t last = 0;
  for (const v1::Round& round : ReadAll()) {
    EXPECT_GT(round.revision(), last);
    last = round.revision();
  }
}

TEST_F(WatchRoundTest, CoalescesChangesWithinTheInterval) {
  request_.mutable_min_interval()->set_seconds(3600);
  Watch();
  EXPECT_EQ(Next().contributors(), 0);
  SubmitMany(50);
  ASSERT_TRUE(client_.Seal("rounds/r").ok());
  // Nothing but the final state, which does not wait for the interval.
  const std::vector<v1::Round> rest = ReadAll();
  ASSERT_EQ(rest.size(), 1);
  EXPECT_EQ(rest[0].state(), v1::ROUND_STATE_PUBLISHED);
  EXPECT_EQ(rest[0].contributors(), 50);
}

TEST_F(WatchRoundTest, ReportsAChangeAfterTheInterval) {
  request_.mutable_min_interval()->set_nanos(20'000'000);
  Watch();
  EXPECT_EQ(Next().contributors(), 0);
  SubmitMany(1);
  EXPECT_EQ(Next().contributors(), 1);
}

TEST_F(WatchRoundTest, ARoundDeletedMeanwhileEndsTheStream) {
  Watch();
  EXPECT_EQ(Next().state(), v1::ROUND_STATE_OPEN);
  ASSERT_TRUE(client_.Abort("rounds/r").ok());
  EXPECT_EQ(ReadAll().back().state(), v1::ROUND_STATE_ABORTED);
  EXPECT_TRUE(Finish().ok());
}

TEST_F(WatchRoundTest, NamesARoundThatDoesNotExist) {
  request_.set_name("rounds/other");
  Watch();
  EXPECT_TRUE(ReadAll().empty());
  EXPECT_EQ(ErrorReason(Finish()), "ROUND_NOT_FOUND");
}

TEST_F(WatchRoundTest, RefusesANegativeInterval) {
  request_.mutable_min_interval()->set_nanos(-1);
  Watch();
  EXPECT_TRUE(ReadAll().empty());
  EXPECT_EQ(ErrorReason(Finish()), "INVALID_DURATION");
}

TEST_F(WatchRoundTest, EndsWhenTheServerDrains) {
  Watch();
  Next();
  server_.grpc().Drain();
  ReadAll();
  EXPECT_EQ(ErrorReason(Finish()), "SERVER_DRAINING");
}

// With these tensors a state is larger than what gRPC buffers for a client that does not read.
TEST(UnreadWatchTest, AnUnreadStateEndsTheCall) {
  constexpr int kTensors = 50'000;
  testing::TestServer server({.round_tensors_max = kTensors, .stream_idle_ms = 200});
  testing::TestClient client(testing::NewChannel(server.address()));
  v1::RoundSpec spec;
  for (int i = 0; i < kTensors; ++i) {
    *spec.add_tensors() = testing::VectorSpec(std::string(100, 'n') + std::to_string(i), 10);
  }
  ASSERT_TRUE(client.Create(spec, "large").ok());
  v1::WatchRoundRequest request;
  request.set_name("rounds/large");
  // On a separate connection, on which flow control has not been opened by large messages.
  testing::TestClient watcher(testing::NewChannel(server.address()));
  const auto context = testing::NewContext();
  const auto reader = watcher.stub().WatchRound(context.get(), request);
  reader->WaitForInitialMetadata();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (client.Info()->load().calls() > 1 && std::chrono::steady_clock::now() < give_up) continue;
  v1::Round round;
  EXPECT_FALSE(reader->Read(&round));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(WatchRoundTest, CancelledWatchersLeaveTheServerServing) {
  for (int i = 0; i < 50; ++i) {
    const auto context = testing::NewContext();
    const auto reader = client_.stub().WatchRound(context.get(), request_);
    v1::Round round;
    EXPECT_TRUE(reader->Read(&round));
    context->TryCancel();
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  SubmitMany(1);
  EXPECT_EQ(client_.Publish("rounds/r")->contributors(), 1);
}

}  // namespace
}  // namespace sparseagg
