// Client::SubmitMany against the real server in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "tests/client/cutting_proxy.h"
#include "tests/client/support.h"
#include "tests/service/rpc/test_server.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::CuttingProxy;
using sparseagg::testing::HasError;
using sparseagg::testing::Impatient;
using sparseagg::testing::MakeTensor;
using sparseagg::testing::TestServer;
using sparseagg::testing::ValuesOf;

const TensorSpec kEmb{"emb", ValueType::kF32, {1000, 2}, 1};

class SubmitManyTest : public ::testing::Test {
 protected:
  void Start(const Limits& limits = {}) {
    server_ = std::make_unique<TestServer>(limits);
    client_ = Client::Connect(server_->address(), Impatient()).value();
    NewRound round;
    round.id = "r";
    round.tensors = {kEmb};
    ASSERT_TRUE(client_->CreateRound(round).ok());
  }
  // Contributor i has a 1 and a 2 in row i.
  void Add(int i, const std::string& contributor) {
    tensors_.push_back(
        std::make_unique<Tensor>(MakeTensor<float>(kEmb, {static_cast<uint64_t>(i)}, {1, 2})));
    Update& update = updates_.emplace_back();
    update.contributor = contributor;
    update.tensors = {tensors_.back()->view()};
  }
  void AddContributors(int n) {
    for (int i = 0; i < n; ++i) Add(i, absl::StrCat("c", i));
  }
  void ExpectAllCountedOnce() {
    const RoundInfo round = client_->GetRound("r").value();
    EXPECT_EQ(round.contributors, updates_.size());
    ASSERT_TRUE(client_->Seal("r").ok());
    ASSERT_TRUE(client_->Wait("r").ok());
    const Tensor sum = client_->Pull("r")->tensors.at(0);
    EXPECT_EQ(sum.indices.size(), updates_.size());
    const std::vector<float> values = ValuesOf<float>(sum);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], i % 2 == 0 ? 1 : 2) << i;
  }

  std::unique_ptr<TestServer> server_;
  std::unique_ptr<Client> client_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::vector<Update> updates_;
};

TEST_F(SubmitManyTest, AnswersEachInItsPlace) {
  Start();
  AddContributors(1000);
  const auto outcomes = client_->SubmitMany("r", updates_);
  ASSERT_EQ(outcomes.size(), 1000u);
  std::set<uint64_t> sequences;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    ASSERT_TRUE(outcomes[i].ok()) << outcomes[i].status();
    EXPECT_EQ(outcomes[i]->contributor, updates_[i].contributor);
    EXPECT_EQ(outcomes[i]->encodings.size(), 1u);
    sequences.insert(outcomes[i]->sequence);
  }
  EXPECT_EQ(sequences.size(), 1000u);
  EXPECT_TRUE(client_->SubmitMany("r", {}).empty());
  for (const auto& again : client_->SubmitMany("rounds/r", updates_)) {
    EXPECT_TRUE(again->duplicate);
  }
  ExpectAllCountedOnce();
}

TEST_F(SubmitManyTest, ARefusedOneDoesNotStopTheOthers) {
  Start();
  AddContributors(5);
  updates_[1].contributor = "not a name";
  updates_[2].tensors = {};
  updates_[3].encoding = "coo.none";  // refused here
  const auto outcomes = client_->SubmitMany("r", updates_);
  EXPECT_TRUE(outcomes[0].ok());
  EXPECT_TRUE(HasError(outcomes[1].status(), "INVALID_CONTRIBUTOR", "not a name"));
  EXPECT_TRUE(HasError(outcomes[2].status(), "MISSING_TENSOR", "emb"));
  EXPECT_TRUE(HasError(outcomes[3].status(), "UNKNOWN_ENCODING", "coo.none"));
  EXPECT_TRUE(outcomes[4].ok());
  EXPECT_EQ(client_->GetRound("r")->contributors, 2u);
}

// Their update_ids, which are digests of the content, are equal, and answers name nothing else.
TEST_F(SubmitManyTest, EqualUpdatesOfSeveralContributorsCountEach) {
  Start();
  for (const char* contributor : {"a", "b", "c"}) Add(7, contributor);
  for (const auto& receipt : client_->SubmitMany("r", updates_)) {
    EXPECT_TRUE(receipt.ok()) << receipt.status();
  }
  EXPECT_EQ(client_->GetRound("r")->contributors, 3u);
}

TEST_F(SubmitManyTest, LargeOnesGoByThemselves) {
  Start();
  AddContributors(10);
  ClientOptions options = Impatient();
  options.unary_bytes_max = 0;
  const auto client = Client::Connect(server_->address(), options).value();
  for (const auto& receipt : client->SubmitMany("r", updates_)) {
    EXPECT_TRUE(receipt.ok()) << receipt.status();
  }
  ExpectAllCountedOnce();
}

TEST_F(SubmitManyTest, GoesOnAfterBrokenConnectionsWithoutCountingTwice) {
  for (const uint64_t bytes_max : {100'000, 10'000}) {  // of a connection: one batch, or less
    tensors_.clear();
    updates_.clear();
    Start();
    AddContributors(1000);
    CuttingProxy proxy(server_->grpc().port(), bytes_max);
    ClientOptions options = Impatient();
    options.retry = {1000, 1, 20};
    const auto cut = Client::Connect(proxy.address(), options).value();
    for (const auto& receipt : cut->SubmitMany("r", updates_)) {
      ASSERT_TRUE(receipt.ok()) << receipt.status();
    }
    EXPECT_GE(proxy.connections(), 2u);
    ExpectAllCountedOnce();
  }
}

TEST_F(SubmitManyTest, ComesAgainWhereTheServerIsBusy) {
  Start({.staging_bytes_max = 2000});
  AddContributors(1000);
  int pauses = 0;
  ClientOptions options;
  options.sleep = [&](uint64_t ms) {
    EXPECT_GE(ms, 100u);  // the server's hint, a random half off
    ++pauses;
  };
  const auto client = Client::Connect(server_->address(), options).value();
  for (const auto& receipt : client->SubmitMany("r", updates_)) {
    ASSERT_TRUE(receipt.ok()) << receipt.status();
  }
  EXPECT_GT(pauses, 0);
  ExpectAllCountedOnce();
}

TEST_F(SubmitManyTest, WithoutAServerEachHasTheError) {
  Start();
  AddContributors(3);
  server_.reset();
  for (const auto& outcome : client_->SubmitMany("r", updates_)) {
    EXPECT_TRUE(absl::IsUnavailable(outcome.status())) << outcome.status();
  }
}

TEST_F(SubmitManyTest, OfARoundThatIsNotThere) {
  Start();
  AddContributors(2);
  for (const auto& outcome : client_->SubmitMany("none", updates_)) {
    EXPECT_TRUE(HasError(outcome.status(), "ROUND_NOT_FOUND", "none"));
  }
}

}  // namespace
}  // namespace sparseagg::client
