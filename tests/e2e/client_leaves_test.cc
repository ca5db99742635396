// The C++ client and the leaves of rounds: where it sends, and what it remembers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/leaves.h"
#include "tests/client/support.h"
#include "tests/e2e/server_process.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::Impatient;
using sparseagg::testing::MakeTensor;
using sparseagg::testing::ServerProcess;
using sparseagg::testing::TemporaryFolder;
using ::testing::AnyOf;

const TensorSpec kVector{"t", ValueType::kF32, {10}, 1};

Update From(const std::string& contributor) {
  static const Tensor kTensor = MakeTensor<float>(kVector, {3}, {0.5f});
  Update update;
  update.contributor = contributor;
  update.tensors = {kTensor.view()};
  return update;
}

NewRound Named(const std::string& id) {
  NewRound round;
  round.id = id;
  round.tensors = {kVector};
  round.durability = Durability::kMemory;  // the leaves keep nothing else
  return round;
}

// --- A root and two leaves in processes of their own ---

class LeavesOfARootTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Client> Connect(const ServerProcess& server) {
    return Client::Connect(server.address(), Impatient()).value();
  }
  uint64_t ContributorsAtLeaves(const std::string& round) const {
    uint64_t contributors = 0;
    for (const ServerProcess* leaf : {&one_, &two_}) {
      contributors += Connect(*leaf)->GetRound(round)->contributors;
    }
    return contributors;
  }
  // How many calls of this method the root has got.
  uint64_t CallsAtRoot(const std::string& method) const {
    int port = 0;
    std::ifstream(folder_.path() + "/admin_port") >> port;
    const auto metrics = httplib::Client("127.0.0.1", port).Get("/metrics");
    if (!metrics) return ~uint64_t{0};
    const std::string name = "grpc_server_started_total{";
    uint64_t calls = 0;
    for (size_t at = 0; (at = metrics->body.find(name, at)) != std::string::npos; ++at) {
      const std::string line = metrics->body.substr(at, metrics->body.find('\n', at) - at);
      if (line.find("grpc_method=\"" + method + "\"") == std::string::npos) continue;
      calls += std::stoull(line.substr(line.rfind(' ')));
    }
    return calls;
  }

  const TemporaryFolder folder_;
  const ServerProcess one_;
  const ServerProcess two_;
  const ServerProcess root_{{"--leaves", one_.address() + "," + two_.address(), "--data-dir",
                             folder_.path() + "/data", "--store-free-bytes-min=0",
                             "--admin-listen=127.0.0.1:0", "--admin-port-file",
                             folder_.path() + "/admin_port"}};
};

TEST_F(LeavesOfARootTest, AClientThatHasSeenTheRoundSendsNothingToTheRoot) {
  const auto owner = Connect(root_);
  ASSERT_TRUE(owner->CreateRound(Named("r1")).ok());
  const auto reader = Connect(root_);
  ASSERT_TRUE(reader->GetRound("r1").ok());
  for (int i = 0; i < 6; ++i) {
    Client& client = i % 2 == 0 ? *owner : *reader;
    ASSERT_TRUE(client.Submit("r1", From(absl::StrCat("c", i))).ok());
  }
  EXPECT_EQ(ContributorsAtLeaves("r1"), 6u);
  EXPECT_EQ(CallsAtRoot("SubmitUpdate"), 0u);
}

TEST_F(LeavesOfARootTest, OnlyTheFirstUpdateOfAClientGoesToTheRoot) {
  const auto owner = Connect(root_);
  const auto phone = Connect(root_);
  for (const char* round : {"r1", "r2", "r3", "r4"}) {
    ASSERT_TRUE(owner->CreateRound(Named(round)).ok());
    for (const char* contributor : {"ann", "bob", "eve"}) {
      ASSERT_TRUE(phone->Submit(round, From(contributor)).ok());
    }
    EXPECT_EQ(ContributorsAtLeaves(round), 3u);
  }
  EXPECT_EQ(CallsAtRoot("SubmitUpdate"), 1u);
  EXPECT_EQ(CallsAtRoot("GetRound"), 4u) << "once for each round";
}

TEST_F(LeavesOfARootTest, ManyUpdatesGoToTheLeavesAtOnce) {
  ASSERT_TRUE(Connect(root_)->CreateRound(Named("r1")).ok());
  std::vector<Update> updates;
  for (int i = 0; i < 20; ++i) updates.push_back(From(absl::StrCat("c", i)));
  const auto client = Connect(root_);
  for (const auto& outcome : client->SubmitMany("r1", updates)) {
    EXPECT_TRUE(outcome.ok()) << outcome.status();
  }
  EXPECT_EQ(ContributorsAtLeaves("r1"), 20u);
  EXPECT_EQ(CallsAtRoot("StreamUpdates"), 0u);
}

TEST_F(LeavesOfARootTest, ADeletedRoundIsNotFound) {
  const auto client = Connect(root_);
  ASSERT_TRUE(client->CreateRound(Named("r1")).ok());
  ASSERT_TRUE(client->Submit("r1", From("ann")).ok());
  ASSERT_TRUE(Connect(root_)->Abort("r1").ok());
  ASSERT_TRUE(Connect(root_)->Delete("r1").ok());
  const absl::Status gone = client->Submit("r1", From("bob")).status();
  EXPECT_THAT(ErrorReason(gone), AnyOf("ROUND_NOT_OPEN", "ROUND_NOT_FOUND", "ROUND_EXPIRED"));
}

// --- What is remembered ---

RoundTree WithLeaf(const std::string& address) { return {.leaves = {{"a", address}}, .self = ""}; }

TEST(LeavesTest, ForgetsTheRoundThatWasUsedLeastRecently) {
  Leaves leaves{ClientOptions()};
  EXPECT_FALSE(leaves.IsRoot());
  leaves.Learn("kept", WithLeaf("localhost:1"));
  EXPECT_TRUE(leaves.IsRoot());
  size_t known = 0;
  for (size_t i = 0; i < 3 * Leaves::kRoundsMax; ++i) {
    leaves.Learn(absl::StrCat("r", i), {});
    ASSERT_TRUE(leaves.Find("kept", "ann").ok());
  }
  for (size_t i = 0; i < 3 * Leaves::kRoundsMax; ++i) known += leaves.Knows(absl::StrCat("r", i));
  EXPECT_EQ(known, Leaves::kRoundsMax - 1);
  EXPECT_TRUE(leaves.Knows("kept"));
  EXPECT_TRUE(leaves.Knows(absl::StrCat("r", 3 * Leaves::kRoundsMax - 1)));
}

TEST(LeavesTest, KeepsNoConnectionToALeafOfNoRound) {
  Leaves leaves{ClientOptions()};
  leaves.Learn("r1", WithLeaf("localhost:1"));
  leaves.Learn("r2", WithLeaf("localhost:2"));
  const std::weak_ptr<Client> first = *leaves.Find("r1", "ann");
  const std::weak_ptr<Client> second = *leaves.Find("r2", "ann");
  leaves.Learn("r1", WithLeaf("localhost:3"));
  EXPECT_TRUE(first.expired());
  EXPECT_FALSE(second.expired());
  for (size_t i = 0; i < Leaves::kRoundsMax; ++i) leaves.Learn(absl::StrCat("other", i), {});
  EXPECT_TRUE(second.expired());
}

TEST(LeavesTest, OnlyARootSaysWhereToSend) {
  Leaves leaves{ClientOptions()};
  leaves.Learn("r1", {.leaves = {{"a", "localhost:1"}}, .self = "a"});
  EXPECT_EQ(*leaves.Find("r1", "ann"), nullptr);
  EXPECT_TRUE(leaves.Knows("r1"));
  EXPECT_FALSE(leaves.IsRoot());
}

}  // namespace
}  // namespace sparseagg::client
