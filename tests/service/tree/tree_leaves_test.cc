// Leaves that are not what they were: given up, replaced by an older copy, or moved; and what is
// carried to the root for one of them.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "service/engine/partial/partial_body.h"
#include "tests/service/tree/tree_bench.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::Sparse;
using ::testing::StartsWith;
using testing::TemporaryFolder;
using testing::TreeBench;

constexpr char kRound[] = "rounds/r";
const TensorSpec kSpec = Sparse("w", 1000);

CreateRoundArgs Args(Durability durability, RoundPolicy policy = {}) {
  CreateRoundArgs args;
  args.round_id = "r";
  args.spec = {.tensors = {kSpec}, .durability = durability, .policy = policy};
  return args;
}

// Returns names of contributors of a leaf, from the first-th on.
std::vector<std::string> NamesOf(const TreeBench& bench, const std::string& leaf, int count,
                                 int first = 0) {
  const RoundTree tree = {.leaves = bench.list, .self = ""};
  std::vector<std::string> names;
  for (int i = first; names.size() < static_cast<size_t>(count); ++i) {
    const std::string name = absl::StrCat("c", i);
    if (LeafOf(tree, kRound, name).id == leaf) names.push_back(name);
  }
  return names;
}

void SendAll(TreeBench& bench, const std::vector<std::string>& names) {
  for (const std::string& name : names) ASSERT_TRUE(bench.Send(kRound, name, kSpec, 1).ok());
}

// --- Given up ---

class GivenUpTest : public ::testing::TestWithParam<Durability> {};

TEST_P(GivenUpTest, ALeafThatHasPublishedItsPartRefusesWhatIsSentAgain) {
  const bool is_durable = GetParam() == Durability::kDurable;
  const TemporaryFolder folder;
  TreeBench bench(2, is_durable ? folder.path() : "");
  ASSERT_TRUE(bench.rounds->Create(Args(GetParam(), {.leaf_wait = std::chrono::minutes(1)})).ok());
  const std::vector<std::string> names = NamesOf(bench, "leaf-0", 3);
  SendAll(bench, names);
  Engine& leaf = bench.servers[0]->engine();
  ASSERT_TRUE(leaf.SealRound(kRound).ok());
  ASSERT_EQ(bench.servers[0]->Await(kRound).state, RoundState::kPublished);
  ASSERT_TRUE(bench.Send(kRound, names[0], kSpec, 1)->duplicate);
  bench.answering["leaf-0"] = nullptr;
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  bench.now += std::chrono::minutes(1);
  bench.Work();
  ASSERT_THAT(bench.root.Await(kRound).manifest->given_up_leaves, ElementsAre("leaf-0"));
  bench.answering["leaf-0"] = bench.servers[0].get();
  for (const bool restarted : {false, true}) {
    bench.Work();
    const RoundSnapshot aborted = *bench.servers[0]->engine().GetRound(kRound);
    EXPECT_EQ(aborted.state, RoundState::kAborted);
    EXPECT_FALSE(aborted.manifest.has_value());
    EXPECT_THAT(bench.servers[0]->engine().Result(kRound).status(),
                FailsWith(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_PUBLISHED"));
    const absl::Status again = bench.Send(kRound, names[0], kSpec, 1).status();
    EXPECT_THAT(again, FailsWith(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_OPEN"));
    EXPECT_THAT(std::string(again.message()), HasSubstr("LEAF_GIVEN_UP"));
    EXPECT_EQ(ErrorMetadata(again).at("closed_by"), "LEAF_GIVEN_UP");
    if (!is_durable || restarted) break;
    bench.servers[0]->Start();
  }
  ASSERT_TRUE(bench.root.engine().DeleteRound(kRound).ok());
  bench.rounds->Changed(kRound);
  bench.Work();
  EXPECT_FALSE(bench.servers[0]->engine().GetRound(kRound).ok());
}

INSTANTIATE_TEST_SUITE_P(Durabilities, GivenUpTest,
                         ::testing::Values(Durability::kMemory, Durability::kDurable));

TEST(GivenUpTest, ARoundThatIsNoLeafsStaysPublished) {
  TreeBench bench(1, "");
  ASSERT_TRUE(bench.root.engine().CreateRound(Args(Durability::kMemory)).ok());
  ASSERT_TRUE(bench.root.engine().SealRound(kRound).ok());
  ASSERT_EQ(bench.root.Await(kRound).state, RoundState::kPublished);
  EXPECT_THAT(bench.root.engine().FailRound(kRound, "LEAF_GIVEN_UP: x").status(),
              FailsWith(absl::StatusCode::kFailedPrecondition, "ROUND_NOT_ABORTABLE"));
}

// --- Older copies ---

class OlderCopyTest : public ::testing::Test {
 protected:
  void Create(RoundPolicy policy = {}) {
    ASSERT_TRUE(bench_.rounds->Create(Args(Durability::kDurable, policy)).ok());
  }
  std::vector<std::string> Names(int count) {
    auto names = NamesOf(bench_, "leaf-0", count, next_);
    next_ = std::stoi(names.back().substr(1)) + 1;
    return names;
  }
  // The process of leaf 0 is stopped for it.
  void Copy() {
    bench_.servers[0]->Stop();
    std::filesystem::copy(data_, copy_, std::filesystem::copy_options::recursive);
    bench_.servers[0]->Start();
  }
  void ReplaceByCopy() {
    bench_.servers[0]->Stop();
    std::filesystem::remove_all(data_);
    std::filesystem::copy(copy_, data_, std::filesystem::copy_options::recursive);
    bench_.servers[0]->Start();
  }

  TemporaryFolder folder_;
  TreeBench bench_{2, folder_.path()};
  const std::string data_ = folder_.path() + "/leaf-0";
  const std::string copy_ = folder_.path() + "/copy";
  int next_ = 0;
};

TEST_F(OlderCopyTest, EndsTheRoundAlsoIfAsManyOthersHaveComeSince) {
  Create();
  SendAll(bench_, Names(3));
  Copy();
  SendAll(bench_, Names(2));
  bench_.Work();
  ReplaceByCopy();
  SendAll(bench_, Names(4));
  bench_.Work();
  const RoundSnapshot ended = *bench_.root.engine().GetRound(kRound);
  EXPECT_EQ(ended.state, RoundState::kAborted);
  EXPECT_THAT(ended.failure,
              StartsWith("LEAF_LOST: leaf \"leaf-0\" has an older copy of the round: 5 "
                         "contributors were there, and 3 when it started again"));
}

TEST_F(OlderCopyTest, IsGivenUpAndHearsItBeforeTheOtherLeavesAreCounted) {
  Create({.leaf_wait = std::chrono::hours(1)});
  Copy();
  SendAll(bench_, Names(1));
  bench_.Work();
  ReplaceByCopy();
  const std::vector<std::string> late = Names(1);
  SendAll(bench_, late);
  bench_.Work();
  ASSERT_EQ(bench_.root.engine().GetRound(kRound)->state, RoundState::kOpen);
  bench_.answering["leaf-1"] = nullptr;
  ASSERT_TRUE(bench_.rounds->Seal(kRound).ok());
  for (int i = 0; i < 2; ++i) bench_.Work();
  EXPECT_EQ(bench_.root.engine().GetRound(kRound)->state, RoundState::kOpen);
  EXPECT_THAT(std::string(bench_.Send(kRound, late[0], kSpec, 1).status().message()),
              HasSubstr("LEAF_GIVEN_UP"));
  bench_.answering["leaf-1"] = bench_.servers[1].get();
  bench_.Work();
  EXPECT_THAT(bench_.root.Await(kRound).manifest->given_up_leaves, ElementsAre("leaf-0"));
}

TEST_F(OlderCopyTest, ThatLacksNothingGoesOnAlsoFromBeforeTheSeal) {
  Create();
  SendAll(bench_, Names(3));
  Copy();
  ASSERT_TRUE(bench_.rounds->Seal(kRound).ok());
  bench_.rounds->WorkOn("leaf-0");  // it is sealed there, and not transferred
  ASSERT_EQ(bench_.servers[0]->engine().GetRound(kRound)->state, RoundState::kPublished);
  ReplaceByCopy();
  ASSERT_EQ(bench_.servers[0]->engine().GetRound(kRound)->state, RoundState::kOpen);
  for (int i = 0; i < 4; ++i) bench_.Work();
  const RoundSnapshot published = bench_.root.Await(kRound);
  ASSERT_EQ(published.state, RoundState::kPublished) << published.failure;
  EXPECT_EQ(published.manifest->contributors, 3u);
}

TEST_F(OlderCopyTest, IsNoneIfTheLeafHasOnlyStartedAgain) {
  Create();
  for (int i = 0; i < 3; ++i) {
    SendAll(bench_, Names(2));
    bench_.Work();
    bench_.servers[0]->Start();
    bench_.Work();
  }
  SendAll(bench_, Names(1));
  ASSERT_TRUE(bench_.rounds->Seal(kRound).ok());
  for (int i = 0; i < 3; ++i) bench_.Work();
  EXPECT_EQ(bench_.root.Await(kRound).manifest->contributors, 7u);
}

// --- Carried by hand ---

TEST(CoveredTest, APartialAggregateWithAContributorOfAnotherLeafIsRefused) {
  TreeBench bench(2, "");
  ASSERT_TRUE(bench.rounds->Create(Args(Durability::kMemory)).ok());
  const std::vector<std::string> own = NamesOf(bench, "leaf-0", 2);
  const std::vector<std::string> others = NamesOf(bench, "leaf-1", 1);
  SendAll(bench, own);
  SendAll(bench, others);
  CreateRoundArgs forged = Args(Durability::kMemory);
  forged.round_id = "forged";
  forged.spec.publish_partial = true;
  ASSERT_TRUE(bench.root.engine().CreateRound(forged).ok());
  for (const std::string& name : {own[0], others[0]}) {
    testing::TestUpdate update("rounds/forged", name, 1.0f, "u");
    update.Add<float>(kSpec, {1}, {1});
    ASSERT_TRUE(bench.root.engine().Submit(update.header, update.tensors()).ok());
  }
  ASSERT_TRUE(bench.root.engine().SealRound("rounds/forged").ok());
  ASSERT_EQ(bench.root.Await("rounds/forged").state, RoundState::kPublished);
  const auto result = bench.root.engine().Result("rounds/forged");
  const std::string_view bytes = (*result)->partial;
  const EncodedTensor body = {PartialHeader(bytes.size()), {}, ByteChain(&bytes, 1)};
  const absl::Status refused =
      bench.root.engine()
          .Submit({.round = kRound, .contributor = "leaf/leaf-0", .update_id = "by-hand"}, {body})
          .status();
  EXPECT_THAT(refused, FailsWith(absl::StatusCode::kFailedPrecondition, "WRONG_LEAF"));
  EXPECT_EQ(ErrorMetadata(refused).at("contributor"), others[0]);
  EXPECT_EQ(ErrorMetadata(refused).at("leaf"), "leaf-1");
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  for (int i = 0; i < 2; ++i) bench.Work();
  EXPECT_EQ(bench.root.Await(kRound).manifest->contributors, 3u);
}

}  // namespace
}  // namespace sparseagg
