// What a root takes for the silence of a leaf, and whose rounds it ends there.
#include "absl/strings/str_cat.h"
#include "tests/service/tree/tree_bench.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::Sparse;
using testing::TemporaryFolder;
using testing::TreeBench;

constexpr char kRound[] = "rounds/r";
const TensorSpec kSpec = Sparse("w", 1000);

CreateRoundArgs Args(RoundPolicy policy = {}, Durability durability = Durability::kMemory) {
  CreateRoundArgs args;
  args.round_id = "r";
  args.request_id = "request";
  args.spec = {.tensors = {kSpec}, .durability = durability, .policy = policy};
  return args;
}

void SendEight(TreeBench& bench) {
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(bench.Send(kRound, absl::StrCat("c", i), kSpec, 1).ok());
  }
}

// Expects a result with the updates of all leaves.
void ExpectAll(TreeBench& bench) {
  const RoundSnapshot round = bench.root.Await(kRound);
  ASSERT_EQ(round.state, RoundState::kPublished) << round.failure;
  EXPECT_THAT(round.manifest->given_up_leaves, ElementsAre());
  EXPECT_EQ(round.manifest->contributors, 8u);
}

TEST(TreeSilenceTest, TheTimeThatARootWasDownIsNoSilenceOfItsLeaves) {
  const TemporaryFolder folder;
  TreeBench bench(2, folder.path());
  const RoundPolicy policy = {.leaf_wait = std::chrono::minutes(1)};
  ASSERT_TRUE(bench.rounds->Create(Args(policy, Durability::kDurable)).ok());
  ASSERT_NO_FATAL_FAILURE(SendEight(bench));
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  bench.now += std::chrono::hours(1);
  bench.RestartRoot();
  bench.rounds->Tick();  // before any leaf is asked
  for (int turn = 0; turn < 2; ++turn) bench.Work();
  ExpectAll(bench);
}

TEST(TreeSilenceTest, ALeafThatAnswersThatItStillPublishesIsNotGivenUp) {
  TreeBench bench(2, "");
  ASSERT_TRUE(bench.rounds->Create(Args({.leaf_wait = std::chrono::minutes(1)})).ok());
  ASSERT_NO_FATAL_FAILURE(SendEight(bench));
  bench.calls.is_publishing = true;
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  for (int turn = 0; turn < 5; ++turn) {
    for (const std::string& leaf : bench.rounds->LeafIds()) bench.rounds->WorkOn(leaf);
    bench.now += std::chrono::seconds(50);
    bench.rounds->Tick();
    EXPECT_EQ(bench.root.engine().GetRound(kRound)->state, RoundState::kOpen);
  }
  bench.calls.is_publishing = false;
  for (int turn = 0; turn < 2; ++turn) bench.Work();
  ExpectAll(bench);
}

TEST(TreeSilenceTest, TheTimeThatAPartialAggregateWaitsForTheRootIsNoSilence) {
  TreeBench bench(2, "");
  ASSERT_TRUE(bench.rounds->Create(Args({.leaf_wait = std::chrono::minutes(1)})).ok());
  ASSERT_NO_FATAL_FAILURE(SendEight(bench));
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  for (const std::string& leaf : bench.rounds->LeafIds()) bench.rounds->WorkOn(leaf);
  bench.now += std::chrono::hours(1);  // the transfers of other rounds take long
  bench.rounds->Tick();
  EXPECT_EQ(bench.root.engine().GetRound(kRound)->state, RoundState::kOpen);
  bench.Work();
  ExpectAll(bench);
}

TEST(TreeSilenceTest, ALeafThatSendsAnotherRoundIsNotSilent) {
  TreeBench bench(1, "");
  CreateRoundArgs args = Args({.leaf_wait = std::chrono::minutes(1)});
  ASSERT_TRUE(bench.rounds->Create(args).ok());
  args.round_id = args.request_id = "second";
  ASSERT_TRUE(bench.rounds->Create(args).ok());
  ASSERT_NO_FATAL_FAILURE(SendEight(bench));
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  ASSERT_TRUE(bench.rounds->Seal("rounds/second").ok());
  bench.calls.on_read = [&](const std::string& round) {
    if (round != kRound) return;
    bench.now += std::chrono::seconds(50);
    bench.rounds->Transfer("leaf-0");  // as another thread does
    bench.now += std::chrono::seconds(50);
    bench.rounds->Tick();
  };
  for (int turn = 0; turn < 2; ++turn) bench.Work();
  ExpectAll(bench);
}

// --- Rounds of others ---

TEST(TreeSilenceTest, ARootEndsNoRoundOfAnotherCreatorThatALeafHasUnderTheName) {
  for (const bool is_of_a_root : {false, true}) {
    TreeBench bench(2, "");
    CreateRoundArgs args = Args();
    if (is_of_a_root) {
      args.spec.publish_partial = true;
      args.spec.tree = {.leaves = bench.list, .self = "leaf-1", .root_round = "another root's"};
    }
    Engine& leaf = bench.servers[1]->engine();
    ASSERT_TRUE(leaf.CreateRound(args).ok());
    bench.answering["leaf-0"] = nullptr;
    EXPECT_THAT(bench.rounds->Create(Args()).status(),
                FailsWith(absl::StatusCode::kUnavailable, "LEAF_UNAVAILABLE"));
    ASSERT_TRUE(bench.root.engine().AbortRound(kRound).ok());
    bench.rounds->Changed(kRound);
    bench.Work();
    EXPECT_EQ(leaf.GetRound(kRound)->state, RoundState::kOpen);
    ASSERT_TRUE(bench.root.engine().DeleteRound(kRound).ok());
    bench.rounds->Changed(kRound);
    bench.answering["leaf-0"] = bench.servers[0].get();
    for (int turn = 0; turn < 2; ++turn) bench.Work();
    EXPECT_EQ(leaf.GetRound(kRound)->state, RoundState::kOpen);
    EXPECT_FALSE(bench.rounds->Has(kRound));
    EXPECT_THAT(bench.log, ::testing::Contains("a leaf has another round of this name, which is "
                                               "left alone: leaf-1"));
  }
}

}  // namespace
}  // namespace sparseagg
