// Nothing remains of a stream that breaks, except what an update in chunks resumes from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "tests/e2e/server_process.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_client.h"

namespace sparseagg {
namespace {

using testing::ChunkedUpdate;
using testing::VectorEntries;
using testing::VectorUpdate;

constexpr int64_t kRows = 1'000'000;

// Makes an update with `nnz` entries at rows 0, 1, ...; all values are 1.
v1::SubmitUpdateRequest Large(const std::string& round, const std::string& contributor,
                              int64_t nnz) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < nnz; ++i) indices.push_back(i);
  return VectorUpdate(
      round, contributor,
      VectorEntries("t", kRows, indices, std::vector<float>(static_cast<size_t>(nnz), 1)));
}

// Begins (or resumes) on a connection of its own and sends `bytes_to_send` bytes. Returns the
// receipt if these are all; otherwise breaks the stream and returns nothing.
absl::StatusOr<v1::Receipt> SendSome(const std::string& address, const ChunkedUpdate& update,
                                     uint64_t bytes_to_send, uint64_t& resumed_at) {
  testing::TestClient client(testing::NewChannel(address));
  const auto context = testing::NewContext();
  const auto stream = client.stub().StreamUpdates(context.get());
  v1::StreamUpdatesRequest message;
  *message.mutable_begin() = update.begin;
  v1::StreamUpdatesResponse response;
  if (!stream->Write(message) || !stream->Read(&response))
    return absl::UnavailableError("no answer to begin");
  if (response.has_error()) return absl::AbortedError(response.error().message());
  resumed_at = response.progress().committed_offset();
  constexpr uint64_t kChunk = 64 << 10;
  const uint64_t end = std::min<uint64_t>(resumed_at + bytes_to_send, update.bytes.size());
  for (uint64_t offset = resumed_at; offset < end; offset += kChunk) {
    *message.mutable_chunk() = testing::ChunkOf(update, offset, std::min(kChunk, end - offset));
    if (!stream->Write(message)) break;
  }
  if (end < update.bytes.size()) {
    context->TryCancel();
    return absl::CancelledError("broken on purpose");
  }
  if (!stream->Read(&response) || !response.has_receipt())
    return absl::UnavailableError(response.DebugString());
  return response.receipt();
}

TEST(StreamsTest, AnUpdateInChunksResumesAfterEveryBreak) {
  const unsigned seed = 7;
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  testing::ServerProcess server;
  testing::TestClient client(testing::NewChannel(server.address()));
  ASSERT_TRUE(client.Create(testing::VectorRound("t", kRows), "r").ok());
  const ChunkedUpdate update = testing::Chunked(Large("rounds/r", "a", 500'000));

  uint64_t resumed_at = 0;
  uint64_t furthest = 0;
  for (int attempt = 0; attempt < 20; ++attempt) {
    EXPECT_FALSE(SendSome(server.address(), update, 1 + random() % 200'000, resumed_at).ok());
    EXPECT_GE(resumed_at, furthest);  // what the server has, it keeps
    furthest = std::max(furthest, resumed_at);
  }
  EXPECT_GT(furthest, 0);
  const auto receipt = SendSome(server.address(), update, update.bytes.size(), resumed_at);
  ASSERT_TRUE(receipt.ok()) << receipt.status();
  EXPECT_FALSE(receipt->duplicate());

  ASSERT_TRUE(client.Publish("rounds/r").ok());
  const auto answer = client.Aggregate("rounds/r");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->bytes, update.bytes);
}

// Repeats the call while the server's error has a retry hint, because the server notices the end of
// a cancelled call a moment later.
template <typename Call>
auto RetryWhileBusy(Call call) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(testing::kCallSecondsMax);
  auto answer = call();
  while (!answer.ok() && RetryAfterMs(answer.status()) > 0 &&
         std::chrono::steady_clock::now() < deadline) {
    answer = call();
  }
  return answer;
}

v1::ReduceRequest ReduceStart() {
  v1::ReduceRequest message;
  *message.mutable_start()->mutable_spec() = testing::VectorRound("t", kRows);
  return message;
}

// The server has memory for one reduction at a time. If a cancelled one left anything, the next one
// would be refused.
TEST(StreamsTest, ACancelledReductionFreesWhatItHeld) {
  testing::ServerProcess server({"--staging-bytes-max", "16MiB", "--open-uploads-max", "2"});
  testing::TestClient client(testing::NewChannel(server.address()));
  const ChunkedUpdate update = testing::Chunked(Large("", "", 200'000));
  for (int i = 0; i < 30; ++i) {
    const auto context = testing::NewContext();
    const auto stream = client.stub().Reduce(context.get());
    ASSERT_TRUE(stream->Write(ReduceStart()));
    v1::ReduceRequest message;
    *message.mutable_begin() = update.begin;
    stream->Write(message);
    *message.mutable_chunk() = testing::ChunkOf(update, 0, 1 << 20);
    stream->Write(message);
    context->TryCancel();
    EXPECT_FALSE(stream->Finish().ok());
  }
  std::vector<v1::ReduceRequest> messages = {ReduceStart()};
  *messages.emplace_back().mutable_begin() = update.begin;
  *messages.emplace_back().mutable_chunk() = testing::ChunkOf(update, 0, update.bytes.size());
  const auto answer = RetryWhileBusy([&] { return client.Reduce(messages); });
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->bytes, update.bytes);
}

TEST(StreamsTest, AbortingTheRoundFreesTheUploadsOfBrokenStreams) {
  testing::ServerProcess server({"--staging-bytes-max", "64MiB", "--open-uploads-max", "4"});
  testing::TestClient client(testing::NewChannel(server.address()));
  for (int i = 0; i < 10; ++i) {
    const std::string id = "r" + std::to_string(i);
    ASSERT_TRUE(client.Create(testing::VectorRound("t", kRows), id).ok());
    for (int u = 0; u < 4; ++u) {
      const ChunkedUpdate update =
          testing::Chunked(Large("rounds/" + id, std::to_string(u), 10'000));
      uint64_t resumed_at = 0;
      EXPECT_EQ(SendSome(server.address(), update, 1000, resumed_at).status().code(),
                absl::StatusCode::kCancelled);
    }
    EXPECT_EQ(client.Get("rounds/" + id)->contributors(), 0);
    ASSERT_TRUE(client.Abort("rounds/" + id).ok());
    ASSERT_TRUE(client.Delete("rounds/" + id).ok());
  }
}

TEST(StreamsTest, ManyCancelledCallsOfEveryKindLeaveTheServerServing) {
  testing::ServerProcess server;
  testing::TestClient client(testing::NewChannel(server.address()));
  ASSERT_TRUE(client.Create(testing::VectorRound("t", kRows), "r").ok());
  for (int i = 0; i < 100; ++i) {
    const auto watching = testing::NewContext();
    const auto streaming = testing::NewContext();
    v1::WatchRoundRequest watch;
    watch.set_name("rounds/r");
    const auto watcher = client.stub().WatchRound(watching.get(), watch);
    const auto stream = client.stub().StreamUpdates(streaming.get());
    v1::StreamUpdatesRequest message;
    *message.mutable_update() = Large("rounds/r", std::to_string(i), 10);
    stream->Write(message);
    watching->TryCancel();
    streaming->TryCancel();
    EXPECT_FALSE(watcher->Finish().ok());
    EXPECT_FALSE(stream->Finish().ok());
  }
  // The sender of a cancelled update does not know whether it was counted; a resend tells.
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(client.Submit(Large("rounds/r", std::to_string(i), 10)).ok());
  }
  EXPECT_EQ(client.Publish("rounds/r")->manifest().contributors(), 100);
}

}  // namespace
}  // namespace sparseagg
