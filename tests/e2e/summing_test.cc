// A federated server relies on this: coordinates are summed, and every contributor is counted
// exactly once, however often clients retry and on whichever connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/server_process.h"
#include "tests/service/rpc/messages.h"
#include "tests/service/rpc/test_client.h"

namespace sparseagg {
namespace {

using testing::ArrayOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::VectorEntries;
using testing::VectorUpdate;

// Summing the component arrays of two sparse tensors, indices with indices and values with values,
// would give [5, 14] and [2, 2].
TEST(SummingTest, CoordinatesAreSummedNotComponents) {
  testing::ServerProcess server;
  testing::TestClient client(testing::NewChannel(server.address()));
  ASSERT_TRUE(client.Create(testing::VectorRound("t", 10), "r").ok());
  ASSERT_TRUE(
      client.Submit(VectorUpdate("rounds/r", "a", VectorEntries("t", 10, {0, 5}, {1, 1}))).ok());
  ASSERT_TRUE(
      client.Submit(VectorUpdate("rounds/r", "b", VectorEntries("t", 10, {5, 9}, {1, 1}))).ok());
  ASSERT_TRUE(client.Publish("rounds/r").ok());
  const auto answer = client.Aggregate("rounds/r");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(ArrayOf<int64_t>(answer->indices()), ElementsAre(0, 5, 9));
  EXPECT_THAT(ArrayOf<float>(answer->values()), ElementsAre(1, 2, 1));
}

TEST(SummingTest, TheStatusTellsPlanAndTimeOfTheReduction) {
  testing::ServerProcess server;
  testing::TestClient client(testing::NewChannel(server.address()));
  const auto info = client.Info();
  ASSERT_TRUE(info.ok()) << info.status();
  const auto backend = std::find_if(info->backends().begin(), info->backends().end(),
                                    [](const v1::BackendInfo& b) { return b.selected(); });
  ASSERT_NE(backend, info->backends().end());

  const auto open = client.Create(testing::VectorRound("t", 10), "r");
  ASSERT_TRUE(open.ok()) << open.status();
  EXPECT_THAT(backend->plans(), Contains(open->tensors(0).plan()));
  EXPECT_EQ(open->tensors(0).measured_seconds(), 0);
  ASSERT_TRUE(
      client.Submit(VectorUpdate("rounds/r", "a", VectorEntries("t", 10, {0, 5}, {1, 1}))).ok());
  ASSERT_TRUE(client.Publish("rounds/r").ok());
  const v1::TensorStatus reduced = client.Get("rounds/r")->tensors(0);
  EXPECT_EQ(reduced.backend(), backend->name());
  EXPECT_THAT(backend->plans(), Contains(reduced.plan()));
  EXPECT_NE(reduced.plan_reason(), "");
  EXPECT_GT(reduced.measured_seconds(), 0);
  EXPECT_GE(reduced.predicted_seconds(), 0);
}

constexpr int kContributors = 2000;
constexpr int kConnections = 16;

// Contributor i sends exactly 1 at coordinate i.
v1::SubmitUpdateRequest SelfIdentifying(int i) {
  return VectorUpdate("rounds/r", "contributor-" + std::to_string(i),
                      VectorEntries("t", kContributors, {i}, {1}));
}

struct Tally {
  std::atomic<int> first{0};
  std::atomic<int> duplicates{0};
  std::atomic<int> errors{0};

  void Add(const absl::StatusOr<v1::Receipt>& receipt) {
    if (!receipt.ok()) {
      ++errors;
    } else {
      ++(receipt->duplicate() ? duplicates : first);
    }
  }
};

// Uses one connection. Sends its share of the contributors' updates and, at random, resends its own
// and others', each as a call of its own, whole on a stream, or in chunks on the stream.
class Sender {
 public:
  Sender(const std::string& address, unsigned seed, Tally& tally)
      : client_(testing::NewChannel(address)), random_(seed), tally_(tally) {
    stream_ = client_.stub().StreamUpdates(context_.get());
  }

  void SendShare(int first) {
    for (int i = first; i < kContributors; i += kConnections) {
      Send(i);
      while (random_() % 3 == 0) Send(i);
      if (random_() % 4 == 0) Send(static_cast<int>(random_() % kContributors));
    }
    stream_->WritesDone();
    const grpc::Status end = stream_->Finish();
    EXPECT_TRUE(end.ok()) << end.error_code() << ": " << end.error_message();
  }

 private:
  void Send(int contributor) {
    const v1::SubmitUpdateRequest update = SelfIdentifying(contributor);
    switch (random_() % 3) {
      case 0:
        return tally_.Add(client_.Submit(update));
      case 1:
        return SendWhole(update);
      default:
        return SendInChunks(update);
    }
  }

  void SendWhole(const v1::SubmitUpdateRequest& update) {
    v1::StreamUpdatesRequest message;
    *message.mutable_update() = update;
    ASSERT_TRUE(stream_->Write(message));
    tally_.Add(Receive());
  }

  // Two connections may send the same update in chunks at the same time. The one whose upload was
  // taken over begins again.
  void SendInChunks(const v1::SubmitUpdateRequest& update) {
    const testing::ChunkedUpdate chunked = testing::Chunked(update);
    while (true) {
      v1::StreamUpdatesRequest message;
      *message.mutable_begin() = chunked.begin;
      ASSERT_TRUE(stream_->Write(message));
      v1::StreamUpdatesResponse response;
      ASSERT_TRUE(stream_->Read(&response));
      if (response.has_error() && response.error().code() == grpc::StatusCode::ABORTED) continue;
      ASSERT_TRUE(response.has_progress()) << response.DebugString();
      const uint64_t offset = response.progress().committed_offset();
      if (offset < chunked.bytes.size()) {
        *message.mutable_chunk() = testing::ChunkOf(chunked, offset, chunked.bytes.size());
        ASSERT_TRUE(stream_->Write(message));
      }
      const auto receipt = Receive();
      if (absl::IsAborted(receipt.status())) continue;
      return tally_.Add(receipt);
    }
  }

  absl::StatusOr<v1::Receipt> Receive() {
    v1::StreamUpdatesResponse response;
    if (!stream_->Read(&response)) return absl::UnavailableError("the stream ended");
    if (response.has_error()) {
      if (response.error().code() != grpc::StatusCode::ABORTED)
        std::cerr << response.error().DebugString() << "\n";
      return absl::Status(static_cast<absl::StatusCode>(response.error().code()),
                          response.error().message());
    }
    return response.receipt();
  }

  testing::TestClient client_;
  std::mt19937 random_;
  Tally& tally_;
  std::unique_ptr<grpc::ClientContext> context_ = testing::NewContext();
  std::unique_ptr<grpc::ClientReaderWriter<v1::StreamUpdatesRequest, v1::StreamUpdatesResponse>>
      stream_;
};

TEST(SummingTest, TwoThousandContributorsFromSixteenConnectionsAreEachCountedOnce) {
  const unsigned seed = 20240601;
  std::cout << "seed " << seed << "\n";
  testing::ServerProcess server;
  testing::TestClient client(testing::NewChannel(server.address()));
  ASSERT_TRUE(client.Create(testing::VectorRound("t", kContributors), "r").ok());

  Tally tally;
  std::vector<std::thread> connections;
  for (int c = 0; c < kConnections; ++c) {
    connections.emplace_back(
        [&, c] { Sender(server.address(), seed + static_cast<unsigned>(c), tally).SendShare(c); });
  }
  for (std::thread& connection : connections) connection.join();
  EXPECT_EQ(tally.errors, 0);
  EXPECT_EQ(tally.first, kContributors);
  EXPECT_GT(tally.duplicates, kContributors / 4);

  const auto round = client.Publish("rounds/r");
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_EQ(round->manifest().contributors(), kContributors);
  EXPECT_EQ(round->manifest().total_weight(), kContributors);
  EXPECT_EQ(round->manifest().duplicates(), static_cast<uint64_t>(tally.duplicates));
  const auto answer = client.Aggregate("rounds/r");
  ASSERT_TRUE(answer.ok()) << answer.status();
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < kContributors; ++i) expected.push_back(i);
  EXPECT_EQ(ArrayOf<int64_t>(answer->indices()), expected);
  EXPECT_THAT(ArrayOf<float>(answer->values()), Each(1.0f));
}

}  // namespace
}  // namespace sparseagg
