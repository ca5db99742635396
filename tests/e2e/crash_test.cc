// Kills the real server (kill -9) under load. Every receipt that a client holds is honoured after
// the restart, and every update is in the sum once. Client i adds 1 at coordinate i, so the result
// shows how often each client was counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "tests/e2e/server_process.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_client.h"
#include "tests/support/effort.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using testing::ServerProcess;
using testing::TestClient;
using testing::VectorEntries;
using testing::VectorUpdate;

constexpr int64_t kSize = 1'000'000;

std::vector<std::string> Arguments(const std::string& data_dir) {
  return {"--data-dir", data_dir, "--store-free-bytes-min", "0"};
}

v1::SubmitUpdateRequest UpdateOf(int64_t client) {
  return VectorUpdate("rounds/r", std::to_string(client), VectorEntries("t", kSize, {client}, {1}));
}

TEST(CrashTest, EveryReceiptHoldsAfterKillAndEveryUpdateCountsOnce) {
  testing::TemporaryFolder folder;
  const int kills = testing::Effort("SPARSEAGG_SERVER_KILLS", 5);
  constexpr int kThreads = 4;
  std::mt19937 random(3);
  std::vector<int64_t> acknowledged;
  std::vector<int64_t> unknown;  // sent, not answered
  auto server = std::make_unique<ServerProcess>(Arguments(folder.path()));
  {
    TestClient client(testing::NewChannel(server->address()));
    ASSERT_TRUE(client.Create(testing::VectorRound("t", kSize), "r").ok());
  }
  std::atomic<int64_t> next_client = 0;
  for (int kill_number = 0; kill_number < kills; ++kill_number) {
    std::vector<std::vector<int64_t>> acks(kThreads);
    std::vector<int64_t> open(kThreads, -1);
    std::vector<std::thread> threads;
    std::atomic<int> total = 0;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        TestClient client(testing::NewChannel(server->address()));
        while (true) {
          open[t] = next_client++;
          const auto receipt = client.Submit(UpdateOf(open[t]));
          if (!receipt.ok()) return;
          EXPECT_EQ(receipt->durability(), v1::DURABILITY_DURABLE);
          acks[t].push_back(open[t]);
          ++total;
          total.notify_all();
        }
      });
    }
    const int enough = static_cast<int>(20 + random() % 200);
    for (int seen = total; seen < enough; seen = total) total.wait(seen);
    server->Signal(SIGKILL);
    EXPECT_EQ(server->Wait(), 128 + SIGKILL);
    for (std::thread& thread : threads) thread.join();
    for (int t = 0; t < kThreads; ++t) {
      acknowledged.insert(acknowledged.end(), acks[t].begin(), acks[t].end());
      unknown.push_back(open[t]);
    }
    server = std::make_unique<ServerProcess>(Arguments(folder.path()));
    ASSERT_FALSE(server->address().empty()) << server->log();
  }

  TestClient client(testing::NewChannel(server->address()));
  // A client without an answer sends the same update again, which counts once in either case.
  for (const int64_t id : unknown) {
    const auto receipt = client.Submit(UpdateOf(id));
    ASSERT_TRUE(receipt.ok()) << receipt.status();
  }
  const auto repeated = client.Submit(UpdateOf(acknowledged.front()));
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_TRUE(repeated->duplicate());
  ASSERT_TRUE(client.Publish("rounds/r").ok());
  const auto check = [&](TestClient& reader) {
    const auto answer = reader.Aggregate("rounds/r");
    ASSERT_TRUE(answer.ok()) << answer.status();
    const auto values = testing::ArrayOf<float>(answer->values());
    EXPECT_EQ(values.size(), acknowledged.size() + unknown.size());
    for (const float value : values) EXPECT_EQ(value, 1.0f);
  };
  check(client);
  server->Signal(SIGKILL);
  server->Wait();
  server = std::make_unique<ServerProcess>(Arguments(folder.path()));
  TestClient reader(testing::NewChannel(server->address()));
  check(reader);
}

// An update in chunks begins in one process of the server and ends in the next.
TEST(CrashTest, AnUpdateInChunksGoesOnAfterAKill) {
  testing::TemporaryFolder folder;
  std::vector<int64_t> indices(1'500'000);
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
  const std::vector<float> ones(indices.size(), 1.0f);
  const auto update =
      testing::Chunked(VectorUpdate("rounds/r", "a", VectorEntries("t", 2 * kSize, indices, ones)));
  // Sends chunks up to `end`, and returns the offset from which the server let it continue.
  const auto send = [&](const std::string& address, uint64_t end, v1::StreamUpdatesResponse& last) {
    TestClient client(testing::NewChannel(address));
    const auto context = testing::NewContext();
    const auto stream = client.stub().StreamUpdates(context.get());
    v1::StreamUpdatesRequest message;
    *message.mutable_begin() = update.begin;
    EXPECT_TRUE(stream->Write(message) && stream->Read(&last));
    const uint64_t resumed_at = last.progress().committed_offset();
    constexpr uint64_t kChunk = uint64_t{1} << 20;
    for (uint64_t at = resumed_at; at < end; at += kChunk) {
      *message.mutable_chunk() = testing::ChunkOf(update, at, std::min(kChunk, end - at));
      EXPECT_TRUE(stream->Write(message));
    }
    if (end == update.bytes.size()) {
      EXPECT_TRUE(stream->Read(&last));
      return resumed_at;
    }
    // The answer to a second beginning on the same stream shows that the chunks have been handled.
    *message.mutable_begin() = update.begin;
    EXPECT_TRUE(stream->Write(message) && stream->Read(&last));
    return resumed_at;
  };

  v1::StreamUpdatesResponse last;
  {
    ServerProcess server(Arguments(folder.path()));
    TestClient client(testing::NewChannel(server.address()));
    ASSERT_TRUE(client.Create(testing::VectorRound("t", 2 * kSize), "r").ok());
    EXPECT_EQ(send(server.address(), 12 << 20, last), 0u);
    EXPECT_EQ(last.progress().committed_offset(), 12u << 20);
    server.Signal(SIGKILL);
    server.Wait();
  }
  ServerProcess server(Arguments(folder.path()));
  const uint64_t resumed_at = send(server.address(), update.bytes.size(), last);
  EXPECT_GE(resumed_at, 8u << 20);
  EXPECT_LE(resumed_at, 12u << 20);
  EXPECT_TRUE(last.has_receipt()) << last.DebugString();
  EXPECT_EQ(last.receipt().durability(), v1::DURABILITY_DURABLE);
  TestClient client(testing::NewChannel(server.address()));
  ASSERT_TRUE(client.Publish("rounds/r").ok());
  const auto answer = client.Aggregate("rounds/r");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->bytes, update.bytes);
}

TEST(CrashTest, WhatIsLeftOfAKilledServerIsSoundAndDamageIsFound) {
  testing::TemporaryFolder folder;
  {
    ServerProcess server(Arguments(folder.path()));
    TestClient client(testing::NewChannel(server.address()));
    for (const char* id : {"r", "published"}) {
      ASSERT_TRUE(client.Create(testing::VectorRound("t", kSize), id).ok());
    }
    ASSERT_TRUE(client.Submit(UpdateOf(3)).ok());
    std::vector<int64_t> many(20'000);
    for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int64_t>(i);
    const std::vector<float> ones(many.size(), 1.0f);
    ASSERT_TRUE(
        client.Submit(VectorUpdate("rounds/published", "a", VectorEntries("t", kSize, many, ones)))
            .ok());
    ASSERT_TRUE(client.Publish("rounds/published").ok());
    EXPECT_EQ(testing::RunProgram("store check " + folder.path()).exit_code, 1);  // it is in use
    server.Signal(SIGKILL);
    server.Wait();
  }
  const testing::ProgramRun sound = testing::RunProgram("store check " + folder.path());
  EXPECT_EQ(sound.exit_code, 0) << sound.output;
  EXPECT_THAT(sound.output, ::testing::HasSubstr("2 rounds, 0 damaged"));
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() + "/payloads")) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100'000);
    file.put('!');
  }
  const testing::ProgramRun damaged = testing::RunProgram("store check " + folder.path());
  EXPECT_EQ(damaged.exit_code, 1) << damaged.output;
  EXPECT_THAT(damaged.output, ::testing::HasSubstr("2 rounds, 1 damaged"));
  EXPECT_THAT(damaged.output, ::testing::HasSubstr("rounds/published  ABORTED"));
  EXPECT_EQ(testing::RunProgram("store check /nonexistent").exit_code, 1);
}

TEST(CrashTest, ASecondServerOnTheSameDataIsRefused) {
  testing::TemporaryFolder folder;
  ServerProcess first(Arguments(folder.path()));
  ASSERT_FALSE(first.address().empty());
  ServerProcess second(Arguments(folder.path()));
  EXPECT_TRUE(second.address().empty());
  EXPECT_NE(second.Wait(), 0);
  EXPECT_THAT(second.log(), ::testing::HasSubstr("STORE_IN_USE"));
}

}  // namespace
}  // namespace sparseagg
