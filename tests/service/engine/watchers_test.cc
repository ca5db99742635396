#include "service/engine/watchers.h"

#include <thread>

#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;

RoundSnapshot Revision(uint64_t revision) { return {.revision = revision}; }

TEST(WatchersTest, TellsNewerRevisionsOnly) {
  Watchers watchers;
  std::vector<uint64_t> told;
  const auto handle = watchers.Add([&](const auto& round) { told.push_back(round->revision); });
  for (const uint64_t revision : {2, 3, 3, 1, 5}) watchers.Notify(Revision(revision));
  EXPECT_THAT(told, ElementsAre(2, 3, 5));
}

TEST(WatchersTest, TellsTheEndOnceAndNothingAfterIt) {
  Watchers watchers;
  int ends = 0;
  int changes = 0;
  const auto handle =
      watchers.Add([&](const auto& round) { ++(round.has_value() ? changes : ends); });
  watchers.NotifyDeleted();
  watchers.NotifyDeleted();
  watchers.Notify(Revision(9));
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(changes, 0);
}

TEST(WatchersTest, SaysNothingToAReleasedHandle) {
  Watchers watchers;
  int calls = 0;
  auto handle = watchers.Add([&](const auto&) { ++calls; });
  watchers.Notify(Revision(2));
  handle.reset();
  watchers.Notify(Revision(3));
  EXPECT_EQ(calls, 1);
}

TEST(WatchersTest, AHandleMayBeReleasedInItsOwnCall) {
  Watchers watchers;
  int calls = 0;
  WatchHandle handle;
  handle = watchers.Add([&](const auto&) {
    ++calls;
    handle.reset();
  });
  watchers.Notify(Revision(2));
  watchers.Notify(Revision(3));
  EXPECT_EQ(calls, 1);
}

TEST(WatchersTest, ACallMayNotifyAgain) {
  Watchers watchers;
  std::vector<uint64_t> told;
  const auto handle = watchers.Add([&](const auto& round) {
    told.push_back(round->revision);
    if (round->revision < 5) watchers.Notify(Revision(round->revision + 1));
  });
  watchers.Notify(Revision(2));
  EXPECT_THAT(told, ElementsAre(2, 3, 4, 5));
}

TEST(WatchersTest, ReleasingWaitsForTheCallOfAnotherThread) {
  for (int repetition = 0; repetition < 200; ++repetition) {
    Watchers watchers;
    auto owned = std::make_unique<uint64_t>(0);  // the call must not outlive this
    auto handle =
        watchers.Add([state = owned.get()](const auto& round) { *state = round->revision; });
    std::jthread notifier([&] {
      for (uint64_t revision = 2; revision < 50; ++revision) watchers.Notify(Revision(revision));
    });
    handle.reset();
    owned.reset();
  }
}

TEST(WatchTest, SeesEveryChangeUpToTheDeletion) {
  TestEngine engine;
  const TensorSpec spec = Sparse("t", 10);
  const std::string round = engine.Create({spec}).name;
  std::vector<std::string> seen;
  std::mutex mutex;
  const auto watch = *engine->Watch(round, [&](const std::optional<RoundSnapshot>& change) {
    std::lock_guard lock(mutex);
    seen.push_back(change.has_value() ? std::string(RoundStateName(change->state)) +
                                            std::to_string(change->contributors)
                                      : "deleted");
  });
  ASSERT_TRUE(engine.Submit(TestUpdate(round, "a").Add<float>(spec, {1}, {1})).ok());
  ASSERT_TRUE(engine.Submit(TestUpdate(round, "a").Add<float>(spec, {1}, {1})).ok());
  engine.clock.Stop();
  ASSERT_TRUE(engine->SealRound(round).ok());
  engine.clock.GoOn();
  engine->Drain();
  ASSERT_TRUE(engine->DeleteRound(round).ok());
  EXPECT_THAT(seen, ElementsAre("OPEN1", "SEALED1", "PUBLISHED1", "deleted"));
}

TEST(WatchTest, ACallMayUseTheEngine) {
  TestEngine engine;
  const std::string round = engine.Create({Sparse("t", 10)}).name;
  const auto watch = *engine->Watch(round, [&](const std::optional<RoundSnapshot>& change) {
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
