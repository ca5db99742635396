// Many threads at once: no update is counted twice, lost, or counted after a cut. Contributor i
// sends exactly 1 at coordinate i, so the result shows who was counted, and how often.
#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

using ::testing::Each;
using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;
using testing::Values;

constexpr int kThreads = 16;

const TensorSpec kSpec = Sparse("who", 100000);

TestUpdate SelfIdentifying(const std::string& round, int64_t i) {
  TestUpdate update(round, "c" + std::to_string(i));
  update.Add<float>(kSpec, {i}, {1});
  return update;
}

std::set<int64_t> CountedOnce(const PublishedResult& result) {
  EXPECT_THAT(Values<float>(result.tensors[0]), Each(1.0f)) << "somebody was counted twice";
  return {result.tensors[0].indices.begin(), result.tensors[0].indices.end()};
}

TEST(ConcurrencyTest, CountsRacingResendsOnceAndGivesAllTheSameReceipt) {
  TestEngine engine;
  const std::string round = engine.Create({kSpec}).name;
  constexpr int kContributors = 50;
  std::vector<std::vector<Receipt>> receipts(kThreads);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : receipts) {
      threads.emplace_back([&] {
        for (int i = 0; i < kContributors; ++i) {
          mine.push_back(*engine.Submit(SelfIdentifying(round, i)));
        }
      });
    }
  }
  for (int i = 0; i < kContributors; ++i) {
    int first = 0;
    for (const auto& mine : receipts) {
      first += mine[i].duplicate ? 0 : 1;
      EXPECT_EQ(mine[i].sequence, receipts[0][i].sequence);
      EXPECT_EQ(mine[i].digest, receipts[0][i].digest);
    }
    EXPECT_EQ(first, 1) << "contributor " << i;
  }
  const auto result = engine.SealAndWait(round);
  EXPECT_EQ(CountedOnce(*result).size(), kContributors);
  EXPECT_EQ(result->manifest.contributors, kContributors);
  EXPECT_EQ(result->manifest.duplicates, kContributors * (kThreads - 1));
}

TEST(ConcurrencyTest, KeepsOneOfManyRacingUpdatesOfAContributor) {
  TestEngine engine;
  const std::string round = engine.Create({kSpec}).name;
  std::atomic<int> accepted = 0;
  std::atomic<int> refused = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        TestUpdate update(round, "a", 1.0f, "u" + std::to_string(i));
        update.Add<float>(kSpec, {i}, {1});
        const auto receipt = engine.Submit(update);
        ++(receipt.ok() ? accepted : refused);
        if (!receipt.ok()) {
          EXPECT_EQ(ErrorReason(receipt.status()), "CONTRIBUTOR_ALREADY_COUNTED");
        }
      });
    }
  }
  EXPECT_EQ(accepted, 1);
  EXPECT_EQ(refused, kThreads - 1);
  EXPECT_EQ(CountedOnce(*engine.SealAndWait(round)).size(), 1u);
}

TEST(ConcurrencyTest, ASealCutsBetweenCountedAndRefusedAndNothingElse) {
  TestEngine engine;
  for (int repetition = 0; repetition < 20; ++repetition) {
    const std::string round = engine.Create({kSpec}).name;
    std::vector<std::set<int64_t>> acknowledged(8);
    std::atomic<int> sent = 0;
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < acknowledged.size(); ++t) {
      threads.emplace_back([&, t] {
        for (int64_t i = static_cast<int64_t>(t);; i += 8) {
          const auto receipt = engine.Submit(SelfIdentifying(round, i));
          ++sent;
          if (receipt.ok()) {
            acknowledged[t].insert(i);
          } else {
            EXPECT_EQ(ErrorReason(receipt.status()), "ROUND_NOT_OPEN");
            return;
          }
        }
      });
    }
    while (sent < 50 + 10 * repetition) std::this_thread::yield();
    const auto result = engine.SealAndWait(round);
    threads.clear();
    std::set<int64_t> expected;
    for (const auto& mine : acknowledged) expected.insert(mine.begin(), mine.end());
    EXPECT_EQ(CountedOnce(*result), expected);
    EXPECT_EQ(result->manifest.contributors, expected.size());
    EXPECT_EQ(engine->GetRound(round)->contributors, expected.size());
  }
}

TEST(ConcurrencyTest, AnAbortUnderFireLeavesARoundThatCanBeMadeAgain) {
  TestEngine engine;
  engine.options.limits.retry_horizon_ms = 0;  // names are reused
  for (int repetition = 0; repetition < 10; ++repetition) {
    const std::string round = engine.Create({kSpec}, "again").name;
    std::atomic<int> sent = 0;
    std::atomic<bool> stop = false;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int64_t i = t; !stop; i += 4) {
          (void)engine.Submit(SelfIdentifying(round, i % 1000));
          ++sent;
        }
      });
    }
    while (sent < 100) std::this_thread::yield();
    ASSERT_TRUE(engine->AbortRound(round).ok());
    ASSERT_TRUE(engine->DeleteRound(round).ok());
    // Submissions to the first round are still in progress; none may count partly in the second.
    ASSERT_EQ(engine.Create({kSpec}, "again").name, round);
    const int before = sent;
    while (sent < before + 100) std::this_thread::yield();
    const auto result = engine.SealAndWait(round);
    stop = true;
    threads.clear();
    EXPECT_EQ(CountedOnce(*result).size(), result->manifest.contributors);
    ASSERT_TRUE(engine->DeleteRound(round).ok());
  }
}

TEST(ConcurrencyTest, RunsSeveralRoundsAtOnce) {
  TestEngine engine;
  engine.engine();
  std::vector<std::jthread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const std::string round = engine.Create({kSpec}, "round-" + std::to_string(t)).name;
      for (int64_t i = 0; i < 100; ++i) {
        ASSERT_TRUE(engine.Submit(SelfIdentifying(round, 1000 * t + i)).ok());
      }
      const auto counted = CountedOnce(*engine.SealAndWait(round));
      EXPECT_EQ(counted.size(), 100u);
      EXPECT_EQ(*counted.begin(), 1000 * t);
    });
  }
}

TEST(ConcurrencyTest, PermutedArrivalGivesTheSameDigests) {
  std::set<std::string> results;
  std::set<std::string> updates;
  std::vector<int64_t> order(40);
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::mt19937 random(7);
  for (const BackendFactory& backend : AllBackends()) {
    if (testing::MakeBackend(backend.name) == nullptr) continue;  // no device
    for (int repetition = 0; repetition < 3; ++repetition) {
      std::shuffle(order.begin(), order.end(), random);
      TestEngine engine(backend.name);
      const std::string round = engine.Create({kSpec}).name;
      std::vector<std::jthread> threads;
      for (size_t t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
          for (size_t k = t; k < order.size(); k += 4) {
            const auto i = static_cast<float>(order[k]);
            TestUpdate update(round, "c" + std::to_string(order[k]), 0.1f * i);
            update.Add<float>(kSpec, {1, 2, 1, order[k]}, {1e20f / (i + 1), -i, 1e-20f, 1});
            ASSERT_TRUE(engine.Submit(update).ok());
          }
        });
      }
      threads.clear();
      const auto result = engine.SealAndWait(round);
      results.insert(result->manifest.result_digest);
      updates.insert(result->manifest.updates_digest);
    }
  }
  EXPECT_EQ(results.size(), 1u);
  EXPECT_EQ(updates.size(), 1u);
}

TEST(ConcurrencyTest, DrainFinishesWhatIsUnderWayAndRefusesTheRest) {
  TestEngine engine;
  const std::string sealed = engine.Create({kSpec}).name;
  const std::string open = engine.Create({kSpec}).name;
  for (int64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(engine.Submit(SelfIdentifying(sealed, i)).ok());
  }
  ASSERT_TRUE(engine->SealRound(sealed).ok());
  auto reduction = engine->NewReduction({.tensors = {kSpec}});
  ASSERT_TRUE(reduction.ok());
  engine->Drain();
  EXPECT_EQ(engine->GetRound(sealed)->state, RoundState::kPublished);
  const auto draining = testing::FailsWith(absl::StatusCode::kUnavailable, "SERVER_DRAINING");
  const absl::Status refused = engine.Submit(SelfIdentifying(open, 1)).status();
  EXPECT_THAT(refused, draining);
  EXPECT_GT(RetryAfterMs(refused), 0u);
  EXPECT_THAT(engine->CreateRound({.spec = {.tensors = {kSpec}}}).status(), draining);
  EXPECT_THAT(engine->NewReduction({.tensors = {kSpec}}).status(), draining);
  TestUpdate update = SelfIdentifying(open, 1);
  EXPECT_THAT(engine->BeginUpload(update.header, update.headers()).status(), draining);
  EXPECT_TRUE(engine->Result(sealed).ok()) << "results stay readable";
  EXPECT_TRUE((*reduction)->Add(update.header, update.tensors()).ok());
  EXPECT_TRUE((*reduction)->Report().ok());
}

TEST(ConcurrencyTest, AReaderKeepsAResultThatIsDeleted) {
  TestEngine engine;
  const std::string round = engine.Create({kSpec}).name;
  ASSERT_TRUE(engine.Submit(SelfIdentifying(round, 5)).ok());
  const auto result = engine.SealAndWait(round);
  std::atomic<bool> started = false;
  std::jthread reader([&] {
    started = true;
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(CountedOnce(*result).count(5), 1u);
  });
  while (!started) std::this_thread::yield();
  ASSERT_TRUE(engine->DeleteRound(round).ok());
}

}  // namespace
}  // namespace sparseagg
