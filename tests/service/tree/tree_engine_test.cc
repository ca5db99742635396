// The engine of a root, with its threads, and that of a server without leaves.
#include "service/tree/tree_engine.h"

#include <future>

#include "absl/strings/str_cat.h"
#include "tests/service/forwarding_engine.h"
#include "tests/service/tree/tree_bench.h"

namespace sparseagg {
namespace {

using testing::ForwardingEngine;
using testing::Sparse;
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
  EXPECT_EQ((*tree)->GetRound("rounds/slow")->state, RoundState::kSealed);
  transfer.set_value();
  EXPECT_EQ(bench.root.Await("rounds/slow").state, RoundState::kPublished);
  EXPECT_EQ(bench.root.Await("rounds/fast").state, RoundState::kPublished);
}

}  // namespace
}  // namespace sparseagg
