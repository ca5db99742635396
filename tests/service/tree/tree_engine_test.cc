// The engine of a root, with its threads, and that of a server without leaves.
#include "service/tree/tree_engine.h"

#include <future>

#include "absl/strings/str_cat.h"
#include "tests/service/forwarding_engine.h"
#include "tests/service/tree/tree_bench.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using testing::FailsWith;
using testing::ForwardingEngine;
using ::testing::HasSubstr;
using testing::Sparse;
using testing::TemporaryFolder;
using testing::TreeBench;

const TensorSpec kSpec = Sparse("w", 1000);

CreateRoundArgs Args(const std::string& id, RoundPolicy policy = {}) {
  CreateRoundArgs args;
  args.round_id = id;
  args.spec = {.tensors = {kSpec}, .policy = policy};
  return args;
}

class WatchedEngine : public ForwardingEngine {
 public:
  using ForwardingEngine::ForwardingEngine;
  absl::StatusOr<WatchHandle> Watch(
      std::string_view, WatchScope,
      std::function<void(const std::optional<RoundSnapshot>&)> on_change) override {
    watcher = std::move(on_change);
    return WatchHandle();
  }
  std::function<void(const std::optional<RoundSnapshot>&)> watcher;
};

TEST(TreeEngineTest, CopiesNoSnapshotForTheWatchersOfARoundWithoutLeaves) {
  TreeBench bench(0, "");
  WatchedEngine inner(bench.root.engine());
  const auto tree = TreeEngine::Start(bench.Options(), {}, inner, bench.root.store(), nullptr);
  ASSERT_TRUE(tree.ok());
  const std::optional<RoundSnapshot> round = RoundSnapshot{};
  const std::optional<RoundSnapshot>* seen = nullptr;
  const auto handle = (*tree)->Watch("rounds/r", WatchScope::kEveryChange,
                                     [&](const std::optional<RoundSnapshot>& now) { seen = &now; });
  ASSERT_TRUE(handle.ok());
  inner.watcher(round);
  EXPECT_EQ(seen, &round);
}

TEST(TreeEngineTest, CallsAboutARoundWithLeavesWaitForThem) {
  TreeBench bench(1, "");
  TreeOptions options = bench.Options();
  options.poll_interval = std::chrono::seconds(1);
  auto tree =
      TreeEngine::Start(std::move(options), {}, bench.root.engine(), bench.root.store(), nullptr);
  ASSERT_TRUE(tree.ok());
  ASSERT_TRUE((*tree)->CreateRound(Args("r")).ok());
  ASSERT_TRUE(bench.root.engine().CreateRound(Args("without")).ok());
  EXPECT_TRUE((*tree)->WaitsForDisk("rounds/r"));
  EXPECT_FALSE((*tree)->WaitsForDisk("rounds/without"));
  EXPECT_FALSE((*tree)->WaitsForDisk("rounds/none"));
}

TEST(TreeEngineTest, ALongTransferDelaysNoOtherRoundOfTheLeaf) {
  TreeBench bench(1, "");
  std::promise<void> transfer;
  std::promise<void> goal;
  bench.calls.on_read = [done = transfer.get_future().share()](const std::string& round) {
    if (round == "rounds/slow") done.wait();
  };
  std::promise<void> reading;
  bench.calls.on_seal = [&](const std::string& round) {
    if (round == "rounds/fast") goal.set_value();
    if (round == "rounds/slow") reading.set_value();
  };
  TreeOptions options = bench.Options();
  options.poll_interval = options.goal_poll_interval = std::chrono::milliseconds(5);
  options.shortest_pause = options.longest_pause = std::chrono::milliseconds(5);
  options.log = [](std::string_view, const std::string&, const std::string&) {};
  auto tree =
      TreeEngine::Start(std::move(options), {}, bench.root.engine(), bench.root.store(), nullptr);
  ASSERT_TRUE(tree.ok());
  ASSERT_TRUE((*tree)->CreateRound(Args("slow")).ok());
  ASSERT_TRUE((*tree)->CreateRound(Args("fast", {.goal_contributors = 1})).ok());
  ASSERT_TRUE(bench.Send("rounds/slow", "c", kSpec, 1).ok());
  ASSERT_TRUE((*tree)->SealRound("rounds/slow").ok());
  reading.get_future().wait();
  // The goal is noticed, and the leaf sealed, while the transfer lasts.
  ASSERT_TRUE(bench.Send("rounds/fast", "c", kSpec, 1).ok());
  EXPECT_EQ(goal.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  // It is transferred beside the slow one.
  auto fast = std::async(std::launch::async, [&] { return bench.root.Await("rounds/fast"); });
  EXPECT_EQ(fast.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ((*tree)->GetRound("rounds/slow")->state, RoundState::kSealed);
  transfer.set_value();
  EXPECT_EQ(bench.root.Await("rounds/slow").state, RoundState::kPublished);
  EXPECT_EQ(bench.root.Await("rounds/fast").state, RoundState::kPublished);
}

TEST(TreeEngineTest, TwoRootsMakeUpDifferentNames) {
  TreeBench one(1, "");
  TreeBench other(1, "");
  CreateRoundArgs args = Args("");
  args.request_id = "request";
  const auto first = one.rounds->Create(args);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(one.rounds->Create(args)->name, first->name) << "a repeated call";
  EXPECT_NE(other.rounds->Create(args)->name.substr(first->name.rfind('-')),
            first->name.substr(first->name.rfind('-')));
}

TEST(TreeEngineTest, ARoundShowsTheAddressThatALeafHasNow) {
  const TemporaryFolder folder;
  TreeBench bench(2, folder.path());
  CreateRoundArgs args = Args("r");
  args.spec.durability = Durability::kDurable;
  ASSERT_TRUE(bench.rounds->Create(args).ok());
  const std::string contributor = "c0";
  const std::string leaf = LeafOf({.leaves = bench.list, .self = ""}, "rounds/r", contributor).id;
  for (Leaf& each : bench.list) each.address = each.id + "-now:50061";
  bench.rounds.reset();
  bench.root.Start();
  auto tree = TreeEngine::Start(bench.Options(), {}, bench.root.engine(), bench.root.store(),
                                bench.root.rows());
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ((*tree)->GetRound("rounds/r")->spec.tree.leaves, bench.list);
  EXPECT_EQ((*tree)->ListRounds("", 1)[0].spec.tree.leaves, bench.list);
  testing::TestUpdate update("rounds/r", contributor, 1.0f, "u");
  update.Add<float>(kSpec, {1}, {1});
  const absl::Status refused = (*tree)->Submit(update.header, update.tensors()).status();
  EXPECT_THAT(refused, FailsWith(absl::StatusCode::kFailedPrecondition, "WRONG_LEAF"));
  EXPECT_EQ(ErrorMetadata(refused).at("address"), leaf + "-now:50061");
  EXPECT_EQ(ErrorMetadata(refused).at("leaf"), leaf);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("at \"" + leaf + "-now:50061\""));
  ASSERT_TRUE((*tree)->SealRound("rounds/r").ok());
  EXPECT_EQ(bench.root.Await("rounds/r").state, RoundState::kPublished);
}

}  // namespace
}  // namespace sparseagg
