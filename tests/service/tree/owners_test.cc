// Divided results: what a root and its owners make of a round has the bytes of one server, and what
// goes wrong is waited for or ends the round visibly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/service/tree/owner_bench.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using testing::Args;
using testing::BytesOf;
using testing::Create;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::kContributors;
using testing::kRound;
using testing::OneServer;
using testing::OwnerBench;
using testing::TemporaryFolder;
using testing::TestUpdate;
using testing::UpdateOf;

struct Outcome {
  Manifest manifest;
  std::string bytes;
};

Outcome OfOneServer(Durability durability) {
  const TemporaryFolder folder;
  OneServer one(durability == Durability::kDurable ? folder.path() : "");
  EXPECT_TRUE(one.engine().CreateRound(Args(durability)).ok());
  for (int i = 0; i < kContributors; ++i) {
    TestUpdate update = UpdateOf(i);
    EXPECT_TRUE(one.engine().Submit(update.header, update.tensors()).ok());
  }
  EXPECT_TRUE(one.engine().SealRound(kRound).ok());
  const RoundSnapshot round = one.Await(kRound);
  return {*round.manifest, *BytesOf(*one.engine().Result(kRound))};
}

void ExpectOutcome(OwnerBench& bench, const Outcome& expected) {
  const RoundSnapshot round = bench.root.Await(kRound);
  ASSERT_EQ(round.state, RoundState::kPublished) << round.failure;
  EXPECT_EQ(round.manifest->contributors, expected.manifest.contributors);
  EXPECT_EQ(round.manifest->total_weight, expected.manifest.total_weight);
  EXPECT_EQ(round.manifest->infinite_values, expected.manifest.infinite_values);
  EXPECT_EQ(round.manifest->updates_digest, expected.manifest.updates_digest);
  EXPECT_EQ(round.manifest->result_digest, expected.manifest.result_digest);
  const auto result = bench.rounds->Result(kRound);
  ASSERT_TRUE(result.ok());
  const auto bytes = BytesOf(*result);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_TRUE(*bytes == expected.bytes);
}

TEST(OwnersTest, ADividedResultHasTheBytesOfOneServer) {
  for (const Durability durability : {Durability::kMemory, Durability::kDurable}) {
    const Outcome expected = OfOneServer(durability);
    for (const size_t leaves : {1, 2, 3, 8}) {
      const TemporaryFolder folder;
      OwnerBench bench(leaves, folder.path());
      ASSERT_TRUE(Create(bench, Args(durability)).ok());
      bench.SendAll();
      ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
      EXPECT_EQ(bench.Finish().manifest->parts.size(), leaves);
      ExpectOutcome(bench, expected);
      EXPECT_TRUE((*bench.root.engine().Result(kRound))->tensors[0].values.empty());
      if (durability == Durability::kMemory) continue;
      const auto verified = bench.rounds->Verify(kRound, [] { return false; });
      ASSERT_TRUE(verified.ok()) << verified.status();
      EXPECT_EQ(verified->result_digest, expected.manifest.result_digest);
      bench.RestartRoot();
      ExpectOutcome(bench, expected);
    }
  }
}

TEST(OwnersTest, DeletingTheRoundErasesTheParts) {
  OwnerBench bench(2, "");
  ASSERT_TRUE(Create(bench, Args(Durability::kMemory)).ok());
  bench.SendAll();
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  bench.Finish();
  for (const auto& server : bench.servers) {
    EXPECT_EQ(server->engine().ListRounds("", 9).size(), 2u);
  }
  ASSERT_TRUE(bench.root.engine().DeleteRound(kRound).ok());
  bench.rounds->Changed(kRound);
  bench.Work();
  bench.Work();
  for (const auto& server : bench.servers) {
    EXPECT_TRUE(server->engine().ListRounds("", 9).empty());
  }
  EXPECT_FALSE(bench.rounds->Has(kRound));
}

TEST(OwnersTest, AbortingTheRoundErasesTheParts) {
  OwnerBench bench(2, "");
  ASSERT_TRUE(Create(bench, Args(Durability::kMemory)).ok());
  bench.SendAll();
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  for (int turn = 0; turn < 3; ++turn) bench.Work();  // the owners do nothing
  EXPECT_EQ(bench.servers[0]->engine().ListRounds("", 9).size(), 2u);
  ASSERT_TRUE(bench.root.engine().AbortRound(kRound).ok());
  bench.rounds->Changed(kRound);
  bench.Work();
  EXPECT_EQ(bench.servers[0]->engine().ListRounds("", 9).size(), 1u);
}

// --- Faults ---

TEST(OwnersTest, ALeafThatLosesItsMemoryEndsTheRound) {
  OwnerBench bench(2, "");
  // The root's rounds are in memory here, too; it is not restarted.
  ASSERT_TRUE(Create(bench, Args(Durability::kMemory)).ok());
  bench.SendAll();
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  for (int turn = 0; turn < 3; ++turn) bench.Work();
  bench.Restart(1);
  const RoundSnapshot round = bench.Finish();
  EXPECT_EQ(round.state, RoundState::kAborted);
  EXPECT_THAT(round.failure, HasSubstr("OWNER_FAILED: owner"));
  EXPECT_THAT(round.failure, HasSubstr("LEAF_LOST"));
}

// A round with all updates, and a leaf_wait of 30 s if it has one.
void SealRoundInMemory(OwnerBench& bench, bool has_wait) {
  RoundPolicy policy;
  if (has_wait) policy.leaf_wait = std::chrono::seconds(30);
  ASSERT_TRUE(Create(bench, Args(Durability::kMemory, policy)).ok());
  bench.SendAll();
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
}

TEST(OwnersTest, AnOwnerThatIsSilentIsWaitedForUnlessLeafWaitIsSet) {
  for (const bool has_wait : {false, true}) {
    OwnerBench bench(2, "");
    ASSERT_NO_FATAL_FAILURE(SealRoundInMemory(bench, has_wait));
    for (int turn = 0; turn < 3; ++turn) bench.Work();
    OneServer* const silent = std::exchange(bench.answering["leaf-1"], nullptr);
    for (int turn = 0; turn < 3; ++turn) bench.WorkOnce();
    EXPECT_EQ(bench.root.engine().GetRound(kRound)->state, RoundState::kOpen);
    bench.now += std::chrono::seconds(31);
    for (int turn = 0; turn < 3; ++turn) bench.WorkOnce();
    const auto late = bench.root.engine().GetRound(kRound);
    if (has_wait) {
      EXPECT_EQ(late->state, RoundState::kAborted);
      EXPECT_THAT(late->failure, HasSubstr("OWNER_LOST"));
      continue;
    }
    EXPECT_EQ(late->state, RoundState::kOpen);
    bench.answering["leaf-1"] = silent;
    bench.Finish();
    ExpectOutcome(bench, OfOneServer(Durability::kMemory));
  }
}

TEST(OwnersTest, ALeafThatOnlyAnOwnerDoesNotReachIsWaitedForUnlessLeafWaitIsSet) {
  for (const bool has_wait : {false, true}) {
    OwnerBench bench(2, "");
    ASSERT_NO_FATAL_FAILURE(SealRoundInMemory(bench, has_wait));
    bench.cut = {{bench.servers[0].get(), "leaf-1"}};
    for (int turn = 0; turn < 6; ++turn) bench.WorkOnce();
    bench.now += std::chrono::seconds(29);
    for (int turn = 0; turn < 3; ++turn) bench.WorkOnce();
    EXPECT_EQ(bench.root.engine().GetRound(kRound)->state, RoundState::kOpen);
    bench.now += std::chrono::seconds(2);
    for (int turn = 0; turn < 3; ++turn) bench.WorkOnce();
    const auto late = bench.root.engine().GetRound(kRound);
    if (has_wait) {
      EXPECT_EQ(late->state, RoundState::kAborted);
      EXPECT_THAT(late->failure,
                  AllOf(HasSubstr("OWNER_FAILED: owner \"leaf-0\": LEAF_LOST: leaf \"leaf-1\""),
                        HasSubstr("the owner has no way to the leaf")));
      continue;
    }
    EXPECT_EQ(late->state, RoundState::kOpen);
    bench.cut.clear();
    bench.Finish();
    ExpectOutcome(bench, OfOneServer(Durability::kMemory));
  }
}

TEST(OwnersTest, APartThatIsLostAfterThePublicationIsAnError) {
  OwnerBench bench(2, "");
  ASSERT_TRUE(Create(bench, Args(Durability::kMemory)).ok());
  bench.SendAll();
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  bench.Finish();
  OneServer* const silent = std::exchange(bench.answering["leaf-1"], nullptr);
  const auto result = bench.rounds->Result(kRound);
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(BytesOf(*result).status(),
              FailsWith(absl::StatusCode::kUnavailable, "OWNER_UNAVAILABLE"));
  bench.answering["leaf-1"] = silent;
  EXPECT_TRUE(BytesOf(*result).ok());
  bench.Restart(1);
  EXPECT_THAT(BytesOf(*result).status(), FailsWith(absl::StatusCode::kDataLoss, "OWNER_LOST"));
}

TEST(OwnersTest, ALeafThatDoesNotKnowAPeerOwnsNothing) {
  OwnerBench bench(2, "");
  RoundTree tree = {.leaves = bench.list, .self = "leaf-0"};
  EXPECT_TRUE(bench.owners[0]->CheckTree(tree).ok());
  tree.owners = true;
  EXPECT_TRUE(bench.owners[0]->CheckTree(tree).ok());
  tree.leaves.push_back({"stranger", "host:1"});
  EXPECT_THAT(bench.owners[0]->CheckTree(tree),
              FailsWith(absl::StatusCode::kFailedPrecondition, "UNKNOWN_PEER"));
}

}  // namespace
}  // namespace sparseagg
