// When the server stops, acknowledged updates are kept, and all others are refused with a reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "tests/e2e/server_process.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_client.h"

namespace sparseagg {
namespace {

using testing::VectorEntries;
using testing::VectorUpdate;

TEST(StopTest, AnIdleServerStopsWithZero) {
  for (const int signal : {SIGTERM, SIGINT}) {
    testing::ServerProcess server;
    server.Signal(signal);
    EXPECT_EQ(server.Wait(), 0);
  }
}

TEST(StopTest, AServerThatIsToldToStopsWithItsInput) {
  const std::string serve = "serve --listen 127.0.0.1:0 --admin-listen none";
  const testing::ProgramRun run = testing::RunProgram(serve + " --stop-at-eof", "echo x | ");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.output, ::testing::HasSubstr("event=serving"));
  EXPECT_THAT(run.output, ::testing::HasSubstr("event=stopped"));
}

// Submits updates until the server refuses one, then records whether the refusal has a reason.
struct Submitter {
  int acknowledged = 0;
  absl::Status refusal;

  void Run(const std::string& address, int number, std::atomic<int>& total) {
    testing::TestClient client(testing::NewChannel(address));
    while (true) {
      const std::string contributor = std::to_string(number) + "." + std::to_string(acknowledged);
      const auto update = VectorUpdate("rounds/r", contributor,
                                       VectorEntries("t", 1000, {acknowledged % 1000}, {1}));
      const auto receipt = client.Submit(update);
      if (!receipt.ok()) {
        refusal = receipt.status();
        return;
      }
      EXPECT_EQ(receipt->contributor(), contributor);
      ++acknowledged;
      ++total;
      total.notify_all();
    }
  }
};

TEST(StopTest, UnderLoadEverySubmissionIsAcknowledgedOrCleanlyRefused) {
  // This is longer than any submitter takes to notice the refusal.
  testing::ServerProcess server({"--drain-delay-ms", "3000"});
  testing::TestClient client(testing::NewChannel(server.address()));
  ASSERT_TRUE(client.Create(testing::VectorRound("t", 1000), "r").ok());
  std::atomic<int> total = 0;
  std::vector<Submitter> submitters(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] { submitters[i].Run(server.address(), i, total); });
  }
  for (int seen = total; seen < 200; seen = total) total.wait(seen);
  server.Signal(SIGTERM);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server.Wait(), 0) << server.log();
  for (const Submitter& submitter : submitters) {
    EXPECT_EQ(ErrorReason(submitter.refusal), "SERVER_DRAINING") << submitter.refusal;
  }
}

TEST(StopTest, AResultBeingReadIsReadToItsEnd) {
  testing::ServerProcess server;
  testing::TestClient client(testing::NewChannel(server.address()));
  constexpr int64_t kSize = 8 << 20;
  ASSERT_TRUE(client.Create(testing::VectorRound("t", kSize), "r").ok());
  ASSERT_TRUE(
      client.Submit(VectorUpdate("rounds/r", "a", VectorEntries("t", kSize, {kSize - 1}, {9})))
          .ok());
  ASSERT_TRUE(client.Publish("rounds/r").ok());
  v1::GetAggregateRequest request;
  request.set_name("rounds/r");
  request.set_layout(v1::RESULT_LAYOUT_DENSE);
  const auto context = testing::NewContext();
  const auto reader = client.stub().GetAggregate(context.get(), request);
  v1::GetAggregateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  server.Signal(SIGTERM);
  ASSERT_TRUE(server.WaitForLog("event=stopping"));
  uint64_t bytes = 0;
  while (reader->Read(&response)) bytes += response.chunk().data().size();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(bytes, kSize * sizeof(float));
  EXPECT_EQ(server.Wait(), 0);
}

TEST(StopTest, AnIdleStreamIsEndedSoThatTheServerCanStop) {
  testing::ServerProcess server;
  testing::TestClient client(testing::NewChannel(server.address()));
  ASSERT_TRUE(client.Create(testing::VectorRound("t", 1000), "r").ok());
  const auto context = testing::NewContext();
  const auto stream = client.stub().StreamUpdates(context.get());
  v1::StreamUpdatesRequest message;
  *message.mutable_update() = VectorUpdate("rounds/r", "a", VectorEntries("t", 1000, {1}, {1}));
  ASSERT_TRUE(stream->Write(message));
  v1::StreamUpdatesResponse response;
  ASSERT_TRUE(stream->Read(&response));
  server.Signal(SIGTERM);
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(ErrorReason(testing::FromGrpc(stream->Finish())), "SERVER_DRAINING");
  EXPECT_EQ(server.Wait(), 0);
}

TEST(StopTest, CallsLeftAtTheDeadlineAreCancelled) {
  testing::ServerProcess server({"--drain-timeout-ms", "50"});
  testing::TestClient client(testing::NewChannel(server.address()));
  const auto context = testing::NewContext();
  const auto stream = client.stub().Reduce(context.get());
  v1::ReduceRequest message;
  *message.mutable_start()->mutable_spec() = testing::VectorRound("t", 10);
  ASSERT_TRUE(stream->Write(message));
  ASSERT_TRUE(client.Create(testing::VectorRound("t", 10)).ok());  // the server has heard of both
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_FALSE(stream->Finish().ok());
}

TEST(StopTest, ASecondSignalEndsItAtOnce) {
  testing::ServerProcess server({"--drain-timeout-ms", "3600000"});
  testing::TestClient client(testing::NewChannel(server.address()));
  const auto context = testing::NewContext();
  const auto stream = client.stub().Reduce(context.get());
  v1::ReduceRequest message;
  *message.mutable_start()->mutable_spec() = testing::VectorRound("t", 10);
  ASSERT_TRUE(stream->Write(message));
  ASSERT_TRUE(client.Create(testing::VectorRound("t", 10)).ok());
  server.Signal(SIGTERM);
  ASSERT_TRUE(server.WaitForLog("event=stopping"));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 3);
}

}  // namespace
}  // namespace sparseagg
