// What a tree does when the root's store or engine refuses, when a leaf never comes back, and when
// two things happen at once.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "service/engine/partial/partial_body.h"
#include "service/tree/start_tree.h"
#include "tests/service/forwarding_engine.h"
#include "tests/service/tree/tree_bench.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using testing::FailsWith;
using testing::ForwardingEngine;
using ::testing::HasSubstr;
using testing::Sparse;
using ::testing::StartsWith;
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

// Rows of a store, which a test looks at before they are written.
class WatchedRows : public TaskRowStore {
 public:
  explicit WatchedRows(TaskRowStore& rows) : rows_(rows) {}
  absl::Status PutTaskRows(std::span<const TaskRow> rows, bool more_work) override {
    SPARSEAGG_RETURN_IF_ERROR(before_put(rows));
    return rows_.PutTaskRows(rows, more_work);
  }
  absl::Status ReadTaskRows(std::string_view prefix,
                            const std::function<void(TaskRow)>& on_row) const override {
    prefixes.emplace_back(prefix);
    return rows_.ReadTaskRows(prefix, on_row);
  }

  std::function<absl::Status(std::span<const TaskRow>)> before_put = [](std::span<const TaskRow>) {
    return absl::OkStatus();
  };
  mutable std::vector<std::string> prefixes;

 private:
  TaskRowStore& rows_;
};

class RefusingEngine : public ForwardingEngine {
 public:
  using ForwardingEngine::ForwardingEngine;
  absl::StatusOr<std::shared_ptr<Upload>> BeginUpload(const UpdateHeader& header,
                                                      std::vector<EncodedHeader> tensors) override {
    if (!refusal.ok()) return refusal;
    return ForwardingEngine::BeginUpload(header, std::move(tensors));
  }
  absl::StatusOr<RoundSnapshot> GetRound(std::string_view name) override {
    ++looks;
    return ForwardingEngine::GetRound(name);
  }
  absl::Status refusal;
  int looks = 0;
};

RoundState ShownState(TreeBench& bench) {
  return bench.rounds->Shown(*bench.root.engine().GetRound(kRound)).state;
}

// --- The row ---

TEST(TreeFaultsTest, ASealIsNotForgottenWhenAnotherChangeIsStoredAtTheSameTime) {
  const TemporaryFolder folder;
  TreeBench bench(2, folder.path());
  WatchedRows rows(*bench.root.rows());
  bench.StartRounds(nullptr, &rows);
  const RoundPolicy policy = {.goal_contributors = 1, .grace = std::chrono::hours(1)};
  ASSERT_TRUE(bench.rounds->Create(Args(policy, Durability::kDurable)).ok());
  ASSERT_TRUE(bench.Send(kRound, "c", kSpec, 1).ok());
  std::mutex mutex;
  std::condition_variable changed;
  bool is_sealed = false;
  std::thread sealing;
  rows.before_put = [&](std::span<const TaskRow>) {
    if (sealing.joinable()) return absl::OkStatus();
    sealing = std::thread([&] {
      EXPECT_TRUE(bench.rounds->Seal(kRound).ok());
      const std::lock_guard lock(mutex);
      is_sealed = true;
      changed.notify_all();
    });
    // The seal either overtakes this row, or waits for it.
    std::unique_lock lock(mutex);
    changed.wait_for(lock, milliseconds(300), [&] { return is_sealed; });
    return absl::OkStatus();
  };
  bench.Work();  // stores that the goal is reached
  ASSERT_TRUE(sealing.joinable());
  sealing.join();
  bench.RestartRoot();
  EXPECT_EQ(ShownState(bench), RoundState::kSealed);
}

TEST(TreeFaultsTest, ARoundIsSealedWhenTheStoreHasTheSeal) {
  const TemporaryFolder folder;
  TreeBench bench(1, folder.path());
  WatchedRows rows(*bench.root.rows());
  bench.StartRounds(nullptr, &rows);
  ASSERT_TRUE(bench.rounds->Create(Args({}, Durability::kDurable)).ok());
  bool refuses = true;
  int puts = 0;
  rows.before_put = [&](std::span<const TaskRow>) {
    ++puts;
    EXPECT_EQ(ShownState(bench), RoundState::kOpen);
    if (!refuses) return absl::OkStatus();
    return MakeError(absl::StatusCode::kResourceExhausted, "STORE_FULL", "simulated");
  };
  EXPECT_THAT(bench.rounds->Seal(kRound).status(),
              FailsWith(absl::StatusCode::kResourceExhausted, "STORE_FULL"));
  EXPECT_EQ(ShownState(bench), RoundState::kOpen);
  refuses = false;
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  EXPECT_EQ(ShownState(bench), RoundState::kSealed);
  EXPECT_EQ(puts, 2);
}

TEST(TreeFaultsTest, ReadsItsOwnRowsOnly) {
  const TemporaryFolder folder;
  TreeBench bench(1, folder.path());
  const TaskRow task = {.key = "g/1", .value = "a task"};
  ASSERT_TRUE(bench.root.rows()->PutTaskRows({&task, 1}, true).ok());
  ASSERT_TRUE(bench.rounds->Create(Args({}, Durability::kDurable)).ok());
  WatchedRows rows(*bench.root.rows());
  bench.StartRounds(nullptr, &rows);
  EXPECT_THAT(rows.prefixes, ElementsAre(std::string(kTreeRowPrefix)));
  std::vector<std::string> keys;
  ASSERT_TRUE(
      bench.root.rows()
          ->ReadTaskRows(kTreeRowPrefix, [&](const TaskRow& row) { keys.push_back(row.key); })
          .ok());
  EXPECT_THAT(keys, ElementsAre(TreeRowKey(kRound)));
}

// --- Partial aggregates that the root refuses ---

TEST(TreeFaultsTest, APartialAggregateThatIsRefusedForGoodAbortsTheRoundOrGivesTheLeafUp) {
  for (const bool may_give_up : {false, true}) {
    TreeBench bench(1, "");
    bench.root.staging_bytes_max = 2048;
    bench.RestartRoot();
    RoundPolicy policy;
    if (may_give_up) policy.leaf_wait = std::chrono::hours(1);
    ASSERT_TRUE(bench.rounds->Create(Args(policy)).ok());
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(bench.Send(kRound, absl::StrCat("c", i), kSpec, 1).ok());
    }
    ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
    for (int i = 0; i < 3; ++i) bench.Work();
    EXPECT_EQ(bench.calls.described, 1) << "it is not sent again";
    const RoundSnapshot ended = bench.root.Await(kRound);
    ASSERT_EQ(bench.log.size(), 2u);
    EXPECT_THAT(bench.log[0], StartsWith("a partial aggregate is refused: leaf-0: "));
    if (may_give_up) {
      ASSERT_EQ(ended.state, RoundState::kPublished) << ended.failure;
      EXPECT_THAT(ended.manifest->given_up_leaves, ElementsAre("leaf-0"));
      EXPECT_EQ(bench.log[1], "a leaf is given up: leaf-0");
    } else {
      EXPECT_EQ(ended.state, RoundState::kAborted);
      EXPECT_THAT(ended.failure, StartsWith("PARTIAL_REFUSED: leaf \"leaf-0\": "));
      EXPECT_THAT(ended.failure, HasSubstr("leaf_wait is not set"));
    }
  }
}

TEST(TreeFaultsTest, ARefusalThatMayPassIsRepeatedAndIsNoProgress) {
  TreeBench bench(1, "");
  RefusingEngine engine(bench.root.engine());
  bench.StartRounds(&engine);
  ASSERT_TRUE(bench.rounds->Create(Args({.leaf_wait = std::chrono::minutes(1)})).ok());
  engine.refusal = WithRetryAfter(
      MakeError(absl::StatusCode::kResourceExhausted, "STAGING_FULL", "simulated"), 100);
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  for (int i = 0; i < 3; ++i) {
    bench.Work();
    EXPECT_EQ(bench.root.engine().GetRound(kRound)->state, RoundState::kOpen);
    bench.now += std::chrono::seconds(19);
  }
  EXPECT_EQ(bench.calls.described, 3);
  EXPECT_EQ(bench.rounds->Leaves()[0].error,
            "the root does not take its partial aggregate: simulated");
  EXPECT_THAT(bench.log, ElementsAre());
  bench.now += std::chrono::seconds(3);
  bench.Work();
  EXPECT_THAT(bench.root.Await(kRound).manifest->given_up_leaves, ElementsAre("leaf-0"));
}

TEST(TreeFaultsTest, OnlyAnEmptyPartialAggregateSaysThatALeafWasGivenUp) {
  TreeBench bench(1, "");
  ASSERT_TRUE(bench.rounds->Create(Args()).ok());
  ASSERT_TRUE(bench.Send(kRound, "c", kSpec, 1).ok());
  ASSERT_TRUE(bench.servers[0]->engine().SealRound(kRound).ok());
  ASSERT_EQ(bench.servers[0]->Await(kRound).state, RoundState::kPublished);
  const auto result = bench.servers[0]->engine().Result(kRound);
  const std::string_view bytes = (*result)->partial;
  const EncodedTensor body = {PartialHeader(bytes.size()), {}, ByteChain(&bytes, 1)};
  UpdateHeader header = {
      .round = kRound, .contributor = "leaf/leaf-0", .update_id = std::string(kGivenUpId)};
  EXPECT_THAT(bench.root.engine().Submit(header, {body}).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_UPDATE_ID"));
  header.update_id = "another";
  EXPECT_TRUE(bench.root.engine().Submit(header, {body}).ok());
}

// --- Creation, looks, and leaves that are gone ---

TEST(TreeFaultsTest, ARestartLearnsThatEveryLeafHasTheRound) {
  const TemporaryFolder folder;
  TreeBench bench(2, folder.path());
  bench.answering["leaf-1"] = nullptr;
  EXPECT_THAT(bench.rounds->Create(Args({}, Durability::kDurable)).status(),
              FailsWith(absl::StatusCode::kUnavailable, "LEAF_UNAVAILABLE"));
  bench.RestartRoot();
  bench.answering["leaf-1"] = bench.servers[1].get();
  bench.Work();
  ASSERT_TRUE(bench.servers[1]->engine().GetRound(kRound).ok());
  bench.RestartRoot();
  // A leaf that loses its round must not get another, empty one.
  ASSERT_TRUE(bench.servers[1]->engine().AbortRound(kRound).ok());
  ASSERT_TRUE(bench.servers[1]->engine().DeleteRound(kRound).ok());
  bench.Work();
  const RoundSnapshot ended = *bench.root.engine().GetRound(kRound);
  EXPECT_EQ(ended.state, RoundState::kAborted);
  EXPECT_THAT(ended.failure, StartsWith("LEAF_LOST: leaf \"leaf-1\""));
  EXPECT_THAT(bench.servers[1]->engine().GetRound(kRound).status(),
              FailsWith(absl::StatusCode::kNotFound, "ROUND_NOT_FOUND"));
}

TEST(TreeFaultsTest, LooksRarelyAtARoundInWhichNothingChanges) {
  TreeBench bench(3, "");
  bench.poll_interval = std::chrono::hours(1);
  RefusingEngine engine(bench.root.engine());
  bench.StartRounds(&engine);
  ASSERT_TRUE(bench.rounds->Create(Args()).ok());
  bench.Work();
  engine.looks = 0;
  for (int i = 0; i < 100; ++i) bench.Work();
  EXPECT_EQ(engine.looks, 0);
  ASSERT_TRUE(bench.rounds->Seal(kRound).ok());
  for (int i = 0; i < 3; ++i) bench.Work();
  ASSERT_EQ(bench.root.Await(kRound).state, RoundState::kPublished);
  engine.looks = 0;
  for (int i = 0; i < 100; ++i) bench.Work();
  EXPECT_EQ(engine.looks, 0);
  ASSERT_TRUE(bench.root.engine().DeleteRound(kRound).ok());
  bench.rounds->Changed(kRound);
  bench.Work();
  for (const auto& server : bench.servers) EXPECT_FALSE(server->engine().GetRound(kRound).ok());
  EXPECT_FALSE(bench.rounds->Has(kRound));
}

TEST(TreeFaultsTest, ALeafThatIsNoLongerConfiguredAndStaysAwayIsForgotten) {
  const TemporaryFolder folder;
  TreeBench bench(2, folder.path());
  ASSERT_TRUE(bench.rounds->Create(Args({}, Durability::kDurable)).ok());
  bench.answering["leaf-1"] = nullptr;
  ASSERT_TRUE(bench.root.engine().AbortRound(kRound).ok());
  ASSERT_TRUE(bench.root.engine().DeleteRound(kRound).ok());
  bench.list.pop_back();
  bench.RestartRoot();
  bench.now += std::chrono::minutes(59);
  bench.Work();
  EXPECT_EQ(bench.rounds->Leaves().size(), 2u);
  bench.now += std::chrono::minutes(1);
  bench.Work();
  ASSERT_EQ(bench.rounds->Leaves().size(), 1u);
  EXPECT_EQ(bench.rounds->Leaves()[0].leaf.id, "leaf-0");
  EXPECT_THAT(bench.log,
              ElementsAre("a leaf is gone and keeps its part of a deleted round: leaf-1"));
  EXPECT_FALSE(bench.HasRows());
}

TEST(TreeFaultsTest, ARootNeedsADataDirectory) {
  TreeBench bench(1, "");
  ServerConfig config;
  config.leaves = "127.0.0.1:50061";
  EXPECT_THAT(
      StartTree(config, bench.root.engine(), bench.root.store(), nullptr, Log(LogLevel::kError))
          .status(),
      FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_CONFIG"));
}

TEST(BackoffTest, DoublesUntilItIsWoken) {
  Backoff backoff;
  const Backoff::Time now{std::chrono::hours(1)};
  EXPECT_LE(backoff.due(), now);
  for (const int pause : {10, 20, 40, 50, 50}) {
    backoff.Double(backoff.wakes(), now, milliseconds(10), milliseconds(50));
    EXPECT_EQ(backoff.due() - now, milliseconds(pause));
  }
  const uint64_t before = backoff.wakes();
  backoff.Wake();
  backoff.Wait(before, now, milliseconds(1000));
  EXPECT_LE(backoff.due(), now) << "woken since the look began";
  backoff.Double(backoff.wakes(), now, milliseconds(10), milliseconds(50));
  EXPECT_EQ(backoff.due() - now, milliseconds(10));
}

}  // namespace
}  // namespace sparseagg
