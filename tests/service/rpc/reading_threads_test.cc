#include "service/rpc/reading_threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_server.h"

namespace sparseagg {
namespace {

class ReadingThreadsTest : public testing::RpcTest {
 protected:
  void SetUp() override { ASSERT_TRUE(client_.Create(testing::VectorRound("t", 10), "r").ok()); }

  // From eight connections at once.
  void ExpectCallsAreAnswered(const std::string& who) {
    std::vector<std::shared_ptr<grpc::Channel>> channels(8);
    for (auto& channel : channels) {
      // A connection may fail where several begin at once in a new process (gRPC 1.51).
      channel = testing::NewChannel(server_.address());
      ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() +
                                            std::chrono::seconds(testing::kCallSecondsMax)));
    }
    std::vector<std::thread> senders;
    for (int i = 0; i < 8; ++i) {
      senders.emplace_back([i, who, channel = channels[i]] {
        testing::TestClient client(channel);
        const auto receipt = client.Submit(testing::VectorUpdate(
            "rounds/r", who + std::to_string(i), testing::VectorEntries("t", 10, {i}, {1})));
        EXPECT_TRUE(receipt.ok()) << receipt.status();
      });
    }
    for (std::thread& sender : senders) sender.join();
  }
};

TEST_F(ReadingThreadsTest, AllButThoseWantedWaitAndCallsAreAnswered) {
  const size_t all = ReadingThreads::All();
  {
    const ReadingThreads threads(1);
    while (threads.waiting() < all - 1) std::this_thread::yield();
    ExpectCallsAreAnswered("few");
    EXPECT_EQ(threads.waiting(), all - 1);
  }
  ExpectCallsAreAnswered("all");
  const auto round = client_.Publish("rounds/r");
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_EQ(round->contributors(), 16U);
}

TEST_F(ReadingThreadsTest, NoneWaitsWhereAllAreWanted) {
  const ReadingThreads threads(ReadingThreads::All());
  ExpectCallsAreAnswered("");
  EXPECT_EQ(threads.waiting(), 0U);
}

TEST_F(ReadingThreadsTest, NoneWaitsWhileSomebodyWantsAll) {
  const size_t all = ReadingThreads::All();
  const ReadingThreads threads(1);
  for (int i = 0; i < 3; ++i) {
    while (threads.waiting() < all - 1) std::this_thread::yield();
    AllReadingThreads first;
    {
      const AllReadingThreads second;
      while (threads.waiting() > 0) std::this_thread::yield();
    }
    ExpectCallsAreAnswered(std::to_string(i) + "-");
    EXPECT_EQ(threads.waiting(), 0U);
  }
}

TEST_F(ReadingThreadsTest, WhoeverWantsAllMayStayLonger) {
  auto threads = std::make_unique<ReadingThreads>(1);
  const auto all = std::make_unique<AllReadingThreads>();
  threads.reset();
  ExpectCallsAreAnswered("");
}

TEST_F(ReadingThreadsTest, AStreamOfSmallUpdatesHasAll) {
  const size_t all = ReadingThreads::All();
  const ReadingThreads threads(1);
  while (threads.waiting() < all - 1) std::this_thread::yield();
  {
    const auto context = testing::NewContext();
    const auto stream = client_.stub().StreamUpdates(context.get());
    v1::StreamUpdatesRequest message;
    v1::StreamUpdatesResponse receipt;
    for (int i = 0; i < 20; ++i) {
      *message.mutable_update() = testing::VectorUpdate("rounds/r", std::to_string(i),
                                                        testing::VectorEntries("t", 10, {1}, {1}));
      ASSERT_TRUE(stream->Write(message));
      ASSERT_TRUE(stream->Read(&receipt));
    }
    while (threads.waiting() > 0) std::this_thread::yield();
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
  }
  while (threads.waiting() < all - 1) std::this_thread::yield();
}

TEST_F(ReadingThreadsTest, AServerMayEndBeforeThem) {
  auto server = std::make_unique<testing::TestServer>();
  const ReadingThreads threads(1);
  server.reset();
  ExpectCallsAreAnswered("");
}

TEST(WantedReadingThreadsTest, AreHalfOfTheProcessorsAndNeverNone) {
  EXPECT_EQ(ReadingThreads::Wanted(), std::max(1U, std::thread::hardware_concurrency() / 2));
}

}  // namespace
}  // namespace sparseagg
