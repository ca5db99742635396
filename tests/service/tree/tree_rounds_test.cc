#include "service/tree/tree_rounds.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/rendezvous.h"
#include "tests/service/tree/tree_bench.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::Sparse;
using testing::TemporaryFolder;
using testing::TreeBench;

constexpr char kRound[] = "rounds/r";
const TensorSpec kSpec = Sparse("w", 1000);

CreateRoundArgs Args(RoundPolicy policy = {}) {
  CreateRoundArgs args;
  args.round_id = "r";
  args.request_id = "request";
  args.spec = {.tensors = {kSpec}, .policy = policy};
  return args;
}

// --- Hashing ---

TEST(RendezvousTest, HasTheWeightsOfTheVectors) {
  std::ifstream file(std::string(SPARSEAGG_SOURCE_DIR) + "/tests/vectors/rendezvous.json");
  const auto cases = nlohmann::json::parse(file);
  ASSERT_GE(cases.size(), 20u);
  for (const auto& one : cases) {
    const auto round = one["round"].get<std::string>();
    const auto contributor = one["contributor"].get<std::string>();
    const auto leaves = one["leaves"].get<std::vector<std::string>>();
    for (size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_EQ(absl::StrCat(absl::Hex(RendezvousHash(round, contributor).Weight(leaves[i]),
                                       absl::kZeroPad16)),
                one["weights"][i].get<std::string>())
          << one;
    }
    const size_t chosen = ChooseLeaf(round, contributor, leaves.size(),
                                     [&](size_t i) { return std::string_view(leaves[i]); });
    EXPECT_EQ(leaves[chosen], one["leaf"].get<std::string>()) << one;
  }
}

TEST(RendezvousTest, AFurtherLeafTakesItsShareAndMovesNobodyElse) {
  const std::vector<std::string> ids = {"a:1", "b:1", "c:1", "d:1"};
  const auto id = [&](size_t i) { return std::string_view(ids[i]); };
  int moved = 0;
  constexpr int kContributors = 4000;
  for (int i = 0; i < kContributors; ++i) {
    const std::string contributor = absl::StrCat("c", i);
    const size_t before = ChooseLeaf(kRound, contributor, 3, id);
    const size_t after = ChooseLeaf(kRound, contributor, 4, id);
    if (before == after) continue;
    EXPECT_EQ(after, 3u);
    ++moved;
  }
  EXPECT_NEAR(moved, kContributors / 4.0, kContributors / 20.0);
}

// --- Who takes what ---

TEST(RoundTreeTest, ALeafRefusesTheContributorsOfOthersAndTheRootAllUpdates) {
  const RoundTree root = {.leaves = {{"one", "a:1"}, {"two", "b:2"}}, .self = ""};
  const Leaf& right = LeafOf(root, kRound, "phone-7");
  for (const std::string self : {"one", "two", ""}) {
    const RoundTree tree = {.leaves = root.leaves, .self = self};
    const absl::Status taken = CheckLeaf(tree, kRound, "phone-7", false);
    if (self == right.id) {
      EXPECT_TRUE(taken.ok()) << taken;
      continue;
    }
    EXPECT_THAT(taken, FailsWith(absl::StatusCode::kFailedPrecondition, "WRONG_LEAF"));
    EXPECT_EQ(ErrorMetadata(taken).at("address"), right.address);
    EXPECT_EQ(ErrorMetadata(taken).at("leaf"), right.id);
  }
  EXPECT_TRUE(CheckLeaf(root, kRound, "leaf/two", true).ok());
  EXPECT_FALSE(CheckLeaf(root, kRound, "leaf/three", true).ok());
  EXPECT_FALSE(CheckLeaf({root.leaves, "two"}, kRound, "leaf/two", true).ok());
  EXPECT_TRUE(CheckLeaf({}, kRound, "anyone", true).ok());
}

TEST(RoundTreeTest, IdsAreValidAndDistinct) {
  EXPECT_TRUE(CheckTree({.leaves = {{"[::1]:5", "[::1]:5"}}, .self = ""}).ok() == false);
  EXPECT_TRUE(CheckTree({.leaves = {{"a:1", "a:1"}, {"b", "b:1"}}, .self = "b"}).ok());
  for (const RoundTree& wrong : {RoundTree{{{"a", "a:1"}, {"a", "b:1"}}, ""},
                                 RoundTree{{{"a", "a:1"}}, "b"}, RoundTree{{{"", "a:1"}}, ""},
                                 RoundTree{{{"a/b", "a:1"}}, ""}, RoundTree{{{"a", ""}}, ""}}) {
    EXPECT_THAT(CheckTree(wrong), FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_SPEC"));
  }
}

TEST(RoundTreeTest, AddressesAreHostAndPort) {
  for (const char* address : {"a:1", "10.0.0.2:50061", "leaf-0.leaves.example.org:65535",
                              "[::1]:50061", "[fe80::1%eth0]:1"}) {
    EXPECT_TRUE(CheckTree({.leaves = {{"two", address}}, .self = ""}).ok()) << address;
  }
  for (const char* address :
       {"a", "a:", "a:0", "a:00", "a:x", "a:65536", ":1", "::1:1", "unix:/tmp/socket", "a b:1",
        "unix-abstract:x", "dns:///a:1", "http://a:1", "https://a:1", "a/b:1", "user@a:1",
        "a:1,b:1", "a\n:1", "ipv4:127.0.0.1:5"}) {
    const absl::Status wrong = CheckTree({.leaves = {{"two", address}}, .self = ""});
    EXPECT_THAT(wrong, FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_SPEC")) << address;
    EXPECT_THAT(std::string(wrong.message()), HasSubstr("leaf \"two\"")) << address;
  }
}

TEST(TreeRowTest, IsReadAsItWasWritten) {
  TreeRow row = {.leaves = {{"a", "a:1"}, {"b", "[::1]:2"}}, .opened = true};
  EXPECT_EQ(ReadTreeRow(WriteTreeRow(row)), row);
  row.sealing = TreeRow::Time(milliseconds(1'700'000'000'123));
  row.goal_reached = TreeRow::Time(milliseconds(1'700'000'000'122));
  EXPECT_EQ(ReadTreeRow(WriteTreeRow(row)), row);
  row.parts = "own-0123456789abcdef";
  EXPECT_EQ(ReadTreeRow(WriteTreeRow(row)), row);  // as earlier versions wrote it
  row.id = "0123456789abcdef";
  EXPECT_EQ(ReadTreeRow(WriteTreeRow(row)), row);
  row.parts.clear();
  EXPECT_EQ(ReadTreeRow(WriteTreeRow(row)), row);
  for (const char* wrong : {"", "2 0 0 0", "1 0 0", "1 0 x 0", "1 2 0 0", "1 0 0 0\nleaf"}) {
    EXPECT_FALSE(ReadTreeRow(wrong).has_value()) << wrong;
  }
  EXPECT_EQ(RoundOfTreeRow(TreeRowKey(kRound)), kRound);
}

// --- The life of a round ---

TEST(TreeRoundsTest, SealsCollectsPublishesAndErases) {
  TreeBench bench(3, "");
  ASSERT_TRUE(bench.rounds->Create(Args()).ok());
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(bench.Send(kRound, absl::StrCat("c", i), kSpec, 1.5f).ok());
  }
  bench.Work();
  EXPECT_EQ(bench.rounds->Shown(*bench.root.engine().GetRound(kRound)).contributors, 12u);
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  EXPECT_EQ(bench.rounds->Shown(*bench.root.engine().GetRound(kRound)).state, RoundState::kSealed);
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  bench.Work();
  const RoundSnapshot published = bench.root.Await(kRound);
  ASSERT_EQ(published.state, RoundState::kPublished) << published.failure;
  EXPECT_EQ(published.manifest->contributors, 12u);
  EXPECT_THAT(published.manifest->given_up_leaves, ElementsAre());
  for (const LeafStatus& leaf : bench.rounds->Leaves()) {
    EXPECT_TRUE(leaf.up);
    EXPECT_EQ(leaf.rounds, 1u);
    EXPECT_GT(leaf.partial_bytes, 0u);
  }
  ASSERT_TRUE(bench.root.engine().DeleteRound(kRound).ok());
  bench.Work();
  for (const auto& server : bench.servers) EXPECT_FALSE(server->engine().GetRound(kRound).ok());
  EXPECT_EQ(bench.rounds->Leaves()[0].rounds, 0u);
}

TEST(TreeRoundsTest, ALeafIsAskedInTimesWithoutRounds) {
  TreeBench bench(2, "");
  bench.poll_interval = milliseconds(5000);
  bench.StartRounds(nullptr);
  EXPECT_FALSE(bench.rounds->Leaves()[0].up);
  bench.Work();
  for (const LeafStatus& leaf : bench.rounds->Leaves()) EXPECT_TRUE(leaf.up) << leaf.leaf.id;
  bench.answering["leaf-1"] = nullptr;
  bench.now += milliseconds(4999);
  bench.Work();
  EXPECT_TRUE(bench.rounds->Leaves()[1].up) << "it is not asked before 5 s";
  bench.now += milliseconds(1);
  bench.Work();
  EXPECT_TRUE(bench.rounds->Leaves()[0].up);
  EXPECT_FALSE(bench.rounds->Leaves()[1].up);
  EXPECT_EQ(bench.rounds->Leaves()[1].error, "there is no server");
  EXPECT_EQ(bench.rounds->Leaves()[1].silent_for, milliseconds(5000));
  bench.answering["leaf-1"] = bench.servers[1].get();
  bench.now -= std::chrono::hours(1);  // the clock is set back
  bench.Work();
  EXPECT_TRUE(bench.rounds->Leaves()[1].up);
}

TEST(TreeRoundsTest, ARoundThatALeafDoesNotHaveYetIsCreatedByTheNextAttempt) {
  TreeBench bench(2, "");
  bench.answering["leaf-1"] = nullptr;
  EXPECT_THAT(bench.rounds->Create(Args()).status(),
              FailsWith(absl::StatusCode::kUnavailable, "LEAF_UNAVAILABLE"));
  bench.answering["leaf-1"] = bench.servers[1].get();
  ASSERT_TRUE(bench.rounds->Create(Args()).ok());
  EXPECT_TRUE(bench.servers[1]->engine().GetRound(kRound).ok());
}

TEST(TreeRoundsTest, ALeafThatRefusesTheRoundEndsIt) {
  TreeBench bench(2, "");
  CreateRoundArgs other;
  other.round_id = "r";
  other.spec.tensors = {kSpec};
  ASSERT_TRUE(bench.servers[1]->engine().CreateRound(other).ok());
  const absl::Status refused = bench.rounds->Create(Args()).status();
  EXPECT_THAT(refused, FailsWith(absl::StatusCode::kAlreadyExists, "ROUND_EXISTS"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("leaf-1"));
  EXPECT_FALSE(bench.root.engine().GetRound(kRound).ok());
  bench.Work();
  EXPECT_FALSE(bench.servers[0]->engine().GetRound(kRound).ok());
  EXPECT_TRUE(bench.servers[1]->engine().GetRound(kRound).ok()) << "it is not the root's";
  // The name was taken back everywhere.
  ASSERT_TRUE(bench.servers[1]->engine().AbortRound(kRound).ok());
  ASSERT_TRUE(bench.servers[1]->engine().DeleteRound(kRound).ok());
  EXPECT_THAT(bench.rounds->Create(Args()).status(),
              FailsWith(absl::StatusCode::kAlreadyExists, "ROUND_EXISTS"))
      << "it was no part of a tree, so its name is remembered there";
  bench.servers[1]->Start();
  bench.Work();
  ASSERT_TRUE(bench.rounds->Create(Args()).ok());
  bench.Work();
  EXPECT_EQ(bench.root.engine().GetRound(kRound)->state, RoundState::kOpen);
  EXPECT_EQ(bench.servers[0]->engine().GetRound(kRound)->state, RoundState::kOpen);
}

TEST(TreeRoundsTest, NamesOfLeavesAreNoContributors) {
  TreeBench bench(2, "");
  ASSERT_TRUE(bench.rounds->Create(Args()).ok());
  EXPECT_THAT(bench.Send(kRound, "leaf/leaf-1", kSpec, 1).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_CONTRIBUTOR"));
}

TEST(TreeRoundsTest, WaitsForASilentLeafForEverWithoutLeafWait) {
  TreeBench bench(2, "");
  ASSERT_TRUE(bench.rounds->Create(Args()).ok());
  bench.answering["leaf-0"] = nullptr;
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  bench.now += std::chrono::hours(1000);
  bench.Work();
  EXPECT_EQ(bench.root.engine().GetRound(kRound)->state, RoundState::kOpen);
  EXPECT_FALSE(bench.rounds->Leaves()[0].up);
  EXPECT_GT(bench.rounds->Leaves()[0].silent_for, std::chrono::hours(999));
  bench.answering["leaf-0"] = bench.servers[0].get();
  bench.Work();
  EXPECT_EQ(bench.root.Await(kRound).state, RoundState::kPublished);
}

TEST(TreeRoundsTest, GivesASilentLeafUpAfterLeafWaitAndAbortsItsRound) {
  TreeBench bench(2, "");
  ASSERT_TRUE(bench.rounds->Create(Args({.leaf_wait = std::chrono::minutes(1)})).ok());
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(bench.Send(kRound, absl::StrCat("c", i), kSpec, 1).ok());
  }
  const uint64_t kept = bench.servers[1]->engine().GetRound(kRound)->contributors;
  bench.answering["leaf-0"] = nullptr;
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  bench.now += std::chrono::seconds(59);
  bench.Work();
  EXPECT_EQ(bench.root.engine().GetRound(kRound)->state, RoundState::kOpen);
  bench.now += std::chrono::seconds(1);
  bench.Work();
  const RoundSnapshot published = bench.root.Await(kRound);
  ASSERT_EQ(published.state, RoundState::kPublished);
  EXPECT_THAT(published.manifest->given_up_leaves, ElementsAre("leaf-0"));
  EXPECT_EQ(published.manifest->contributors, kept);
  EXPECT_EQ(bench.rounds->Leaves()[0].given_up, 1u);
  EXPECT_THAT(bench.log, ElementsAre("a leaf is given up: leaf-0"));
  bench.answering["leaf-0"] = bench.servers[0].get();
  bench.Work();
  EXPECT_EQ(bench.servers[0]->engine().GetRound(kRound)->state, RoundState::kAborted);
}

TEST(TreeRoundsTest, ALeafThatLostItsRoundAbortsItOrIsGivenUp) {
  for (const bool may_give_up : {false, true}) {
    TreeBench bench(2, "");
    RoundPolicy policy;
    if (may_give_up) policy.leaf_wait = std::chrono::hours(1);
    ASSERT_TRUE(bench.rounds->Create(Args(policy)).ok());
    bench.servers[0]->Start();  // its memory is gone
    bench.Work();
    bench.rounds->Seal(kRound).IgnoreError();
    bench.Work();
    const RoundSnapshot ended = bench.root.Await(kRound);
    EXPECT_EQ(ended.state, may_give_up ? RoundState::kPublished : RoundState::kAborted);
    if (!may_give_up) continue;
    EXPECT_THAT(ended.manifest->given_up_leaves, ElementsAre("leaf-0"));
  }
}

TEST(TreeRoundsTest, TheGoalAndTheMinimumCountAllLeaves) {
  TreeBench bench(3, "");
  ASSERT_TRUE(bench.rounds->Create(Args({.goal_contributors = 6, .min_contributors = 4})).ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(bench.Send(kRound, absl::StrCat("c", i), kSpec, 1).ok());
  }
  EXPECT_THAT(bench.rounds->Seal(kRound).status(),
              FailsWith(absl::StatusCode::kFailedPrecondition, "INSUFFICIENT_CONTRIBUTORS"));
  bench.Work();
  EXPECT_EQ(bench.root.engine().GetRound(kRound)->state, RoundState::kOpen);
  // More than the goal are counted before the root looks.
  for (int i = 3; i < 9; ++i) {
    ASSERT_TRUE(bench.Send(kRound, absl::StrCat("c", i), kSpec, 1).ok());
  }
  for (int i = 0; i < 3; ++i) bench.Work();
  const RoundSnapshot published = bench.root.Await(kRound);
  ASSERT_EQ(published.state, RoundState::kPublished);
  EXPECT_EQ(published.manifest->contributors, 9u);
}

TEST(TreeRoundsTest, TheDeadlineSealsOrAborts) {
  for (const uint64_t minimum : {0u, 1u}) {
    TreeBench bench(2, "");
    const auto created = bench.rounds->Create(
        Args({.min_contributors = minimum, .open_for = std::chrono::hours(1)}));
    ASSERT_TRUE(created.ok()) << created.status();
    bench.Work();
    EXPECT_EQ(bench.root.engine().GetRound(kRound)->state, RoundState::kOpen);
    bench.now += std::chrono::hours(2);
    for (int i = 0; i < 3; ++i) bench.Work();
    EXPECT_EQ(bench.root.Await(kRound).state,
              minimum == 0 ? RoundState::kPublished : RoundState::kAborted);
  }
}

TEST(TreeRoundsTest, ARootThatStartsAgainGoesOnFromItsStore) {
  const TemporaryFolder folder;
  TreeBench bench(2, folder.path());
  CreateRoundArgs args = Args();
  args.spec.durability = Durability::kDurable;
  ASSERT_TRUE(bench.rounds->Create(args).ok());
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(bench.Send(kRound, absl::StrCat("c", i), kSpec, 1).ok());
  }
  bench.answering["leaf-1"] = nullptr;
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  bench.Work();
  bench.RestartRoot();
  EXPECT_EQ(bench.rounds->Shown(*bench.root.engine().GetRound(kRound)).state, RoundState::kSealed);
  bench.servers[1]->Start();
  bench.answering["leaf-1"] = bench.servers[1].get();
  bench.Work();
  EXPECT_EQ(bench.root.Await(kRound).manifest->contributors, 6u);
  ASSERT_TRUE(bench.root.engine().DeleteRound(kRound).ok());
  bench.RestartRoot();
  bench.Work();
  for (const auto& server : bench.servers) EXPECT_FALSE(server->engine().GetRound(kRound).ok());
  EXPECT_FALSE(bench.HasRows());
}

TEST(TreeRoundsTest, RefusesWhatATreeCannotKeep) {
  TreeBench bench(1, "");
  EXPECT_THAT(bench.rounds->Create(Args({.max_contributors = 5})).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_POLICY"));
  CreateRoundArgs args = Args();
  args.spec.tree = {.leaves = {{"a", "a:1"}}, .self = "a"};
  EXPECT_THAT(bench.rounds->Create(args).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_SPEC"));
  args.spec.tree.self = "";
  EXPECT_THAT(bench.rounds->Create(args).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_SPEC"));
  args = Args();
  args.tenant = "other";
  EXPECT_THAT(bench.rounds->Create(args).status(),
              FailsWith(absl::StatusCode::kFailedPrecondition, "TREE_TENANT"));
}

}  // namespace
}  // namespace sparseagg
