#include "service/engine/round/watchers.h"

#include <condition_variable>
#include <set>
#include <thread>

#include "tests/service/engine/testing.h"
#include "tests/support/manual_executor.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;

RoundSnapshot Revision(uint64_t revision) { return {.revision = revision}; }

TEST(WatchersTest, TellsNewerRevisionsOnly) {
  Watchers watchers;
  std::vector<uint64_t> received;
  const auto handle = watchers.Add(WatchScope::kEveryChange,
                                   [&](const auto& round) { received.push_back(round->revision); });
  for (const uint64_t revision : {2, 3, 3, 1, 5}) watchers.Notify(Revision(revision));
  EXPECT_THAT(received, ElementsAre(2, 3, 5));
}

TEST(WatchersTest, TellsTheEndOnceAndNothingAfterIt) {
  Watchers watchers;
  int ends = 0;
  int changes = 0;
  const auto handle = watchers.Add(
      WatchScope::kEveryChange, [&](const auto& round) { ++(round.has_value() ? changes : ends); });
  watchers.NotifyDeleted();
  watchers.NotifyDeleted();
  watchers.Notify(Revision(9));
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(changes, 0);
}

TEST(WatchersTest, SaysNothingToAReleasedHandle) {
  Watchers watchers;
  int calls = 0;
  auto handle = watchers.Add(WatchScope::kEveryChange, [&](const auto&) { ++calls; });
  watchers.Notify(Revision(2));
  handle.reset();
  watchers.Notify(Revision(3));
  EXPECT_EQ(calls, 1);
}

TEST(WatchersTest, AHandleMayBeReleasedInItsOwnCall) {
  Watchers watchers;
  int calls = 0;
  WatchHandle handle;
  handle = watchers.Add(WatchScope::kEveryChange, [&](const auto&) {
    ++calls;
    handle.reset();
  });
  watchers.Notify(Revision(2));
  watchers.Notify(Revision(3));
  EXPECT_EQ(calls, 1);
}

TEST(WatchersTest, ACallMayNotifyAgain) {
  Watchers watchers;
  std::vector<uint64_t> received;
  const auto handle = watchers.Add(WatchScope::kEveryChange, [&](const auto& round) {
    received.push_back(round->revision);
    if (round->revision < 5) watchers.Notify(Revision(round->revision + 1));
  });
  watchers.Notify(Revision(2));
  EXPECT_THAT(received, ElementsAre(2, 3, 4, 5));
}

TEST(WatchersTest, ReleasingWaitsForTheCallOfAnotherThread) {
  for (int repetition = 0; repetition < 200; ++repetition) {
    Watchers watchers;
    auto owned = std::make_unique<uint64_t>(0);  // the call must not outlive this
    auto handle = watchers.Add(WatchScope::kEveryChange, [state = owned.get()](const auto& round) {
      *state = round->revision;
    });
    std::jthread notifier([&] {
      for (uint64_t revision = 2; revision < 50; ++revision) watchers.Notify(Revision(revision));
    });
    handle.reset();
    owned.reset();
  }
}

TEST(WatchersTest, WhoWaitsForTheEndIsToldOfThatAlone) {
  Watchers watchers;
  std::vector<RoundState> received;
  bool deleted = false;
  const auto handle = watchers.Add(WatchScope::kEnd, [&](const auto& round) {
    deleted = !round.has_value();
    if (round.has_value()) received.push_back(round->state);
  });
  EXPECT_FALSE(watchers.AnyForEveryChange());
  watchers.Notify({.state = RoundState::kOpen, .revision = 2});
  watchers.Notify({.state = RoundState::kSealed, .revision = 3});
  watchers.Notify({.state = RoundState::kPublished, .revision = 4});
  EXPECT_THAT(received, ElementsAre(RoundState::kPublished));
  watchers.NotifyDeleted();
  EXPECT_TRUE(deleted);
}

TEST(WatchersTest, AllAreToldOfTheSameCopyOfAState) {
  Watchers watchers;
  std::set<const std::optional<RoundSnapshot>*> copies;
  int calls = 0;
  std::vector<WatchHandle> handles;
  for (int i = 0; i < 100; ++i) {
    handles.push_back(watchers.Add(WatchScope::kEveryChange, [&](const auto& round) {
      copies.insert(&round);
      ++calls;
    }));
  }
  watchers.Notify(Revision(2));
  EXPECT_EQ(calls, 100);
  EXPECT_EQ(copies.size(), 1u);
}

// N contributors that submit and then wait cause N calls, and so do N watchers of N updates, rather
// than N * N.
TEST(WatchTest, ManyWhoSubmitAreNotHeldUpByManyWhoWaitOrWatch) {
  constexpr int kContributors = 300;
  testing::ManualExecutor executor;
  TestEngine engine;
  engine.options.executor = &executor;
  const TensorSpec spec = Sparse("t", 10);
  const std::string round = engine.Create({spec}).name;
  int waiting_told = 0;
  int watching_told = 0;
  uint64_t newest = 0;
  std::vector<WatchHandle> handles;
  for (int i = 0; i < kContributors; ++i) {
    const std::string contributor = std::to_string(i);
    ASSERT_TRUE(engine.Submit(TestUpdate(round, contributor).Add<float>(spec, {1}, {1})).ok());
    handles.push_back(
        *engine->Watch(round, WatchScope::kEnd, [&](const auto&) { ++waiting_told; }));
    handles.push_back(*engine->Watch(round, WatchScope::kEveryChange, [&](const auto& now) {
      ++watching_told;
      newest = now->contributors;
    }));
  }
  EXPECT_EQ(waiting_told, 0);
  EXPECT_EQ(watching_told, 0) << "by those who submit";
  executor.Advance(std::chrono::milliseconds(10));
  executor.WaitUntilIdle();
  EXPECT_EQ(watching_told, kContributors) << "of all updates at once";
  EXPECT_EQ(newest, kContributors);
  EXPECT_EQ(waiting_told, 0);
  ASSERT_TRUE(engine->SealRound(round).ok());
  executor.WaitUntilIdle();
  EXPECT_EQ(engine->GetRound(round)->state, RoundState::kPublished);
  EXPECT_EQ(waiting_told, kContributors);
  EXPECT_EQ(watching_told, 3 * kContributors) << "sealed, published";
  handles.clear();
  executor.DropAll();
}

TEST(WatchTest, SeesEveryChangeUpToTheDeletion) {
  TestEngine engine;
  const TensorSpec spec = Sparse("t", 10);
  const std::string round = engine.Create({spec}).name;
  std::vector<std::string> seen;
  std::mutex mutex;
  std::condition_variable changed;
  const auto watch = *engine->Watch(
      round, WatchScope::kEveryChange, [&](const std::optional<RoundSnapshot>& change) {
        std::lock_guard lock(mutex);
        seen.push_back(change.has_value() ? std::string(RoundStateName(change->state)) +
                                                std::to_string(change->contributors)
                                          : "deleted");
        changed.notify_all();
      });
  ASSERT_TRUE(engine.Submit(TestUpdate(round, "a").Add<float>(spec, {1}, {1})).ok());
  ASSERT_TRUE(engine.Submit(TestUpdate(round, "a").Add<float>(spec, {1}, {1})).ok());
  // Otherwise a change might be reported together with the next.
  const auto wait_for = [&](size_t changes) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return seen.size() >= changes; });
  };
  wait_for(1);
  engine.clock.Stop();
  ASSERT_TRUE(engine->SealRound(round).ok());
  wait_for(2);
  engine.clock.GoOn();
  engine->Drain();
  ASSERT_TRUE(engine->DeleteRound(round).ok());
  EXPECT_THAT(seen, ElementsAre("OPEN1", "SEALED1", "PUBLISHED1", "deleted"));
}

TEST(WatchTest, ACallMayUseTheEngine) {
  TestEngine engine;
  const std::string round = engine.Create({Sparse("t", 10)}).name;
  const auto watch = *engine->Watch(
      round, WatchScope::kEveryChange, [&](const std::optional<RoundSnapshot>& change) {
        if (change.has_value() && change->state == RoundState::kPublished) {
          EXPECT_TRUE(engine->DeleteRound(round).ok());
        }
      });
  ASSERT_TRUE(engine->SealRound(round).ok());
  engine->Drain();
  EXPECT_TRUE(engine->ListRounds("", 1).empty());
}

}  // namespace
}  // namespace sparseagg
