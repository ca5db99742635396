// Rounds that their policy ends, across a restart of the server. Names in brackets are the rows of
// the table of interleavings (docs/decisions/0007-round-policy.md).
#include <filesystem>

#include "service/store/durable_store.h"
#include "tests/service/engine/testing.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;

constexpr char kRound[] = "rounds/r";

class PolicyRecoveryTest : public ::testing::Test {
 protected:
  PolicyRecoveryTest() { engine_.options.check_interval = milliseconds(1); }
  static std::unique_ptr<UpdateStore> Open(const std::string& folder) {
    auto store = OpenDurableStore({.directory = folder, .free_bytes_min = 0});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  void Create(const RoundPolicy& policy) {
    engine_.Create(RoundSpec{
        .tensors = {Sparse("t", 100)}, .durability = Durability::kDurable, .policy = policy});
  }
  void Submit(const std::string& contributor) {
    const auto receipt =
        engine_.Submit(TestUpdate(kRound, contributor).Add<float>(Sparse("t", 100), {1}, {1}));
    ASSERT_TRUE(receipt.ok()) << receipt.status();
  }
  // Ends the server, lets `down` pass, sets the wall clock and starts another server.
  void Restart(milliseconds down = {}, milliseconds set_wall_by = {}) {
    engine_.clock.Advance(down);
    engine_.clock.SetWallClockBy(set_wall_by);
    const absl::Status recovered = engine_.Restart();
    ASSERT_TRUE(recovered.ok()) << recovered;
  }
  RoundSnapshot Round() { return *engine_->GetRound(kRound); }
  RoundSnapshot End() { return engine_.WaitUntilFinal(kRound); }

  testing::TemporaryFolder folder_;
  testing::TemporaryFolder copies_;  // copies of the folder; deleted when no store is open
  TestEngine engine_{testing::MakeBackend("cpu"), [this] { return Open(folder_.path()); }};
};

TEST_F(PolicyRecoveryTest, TheTimeThatAServerIsDownCounts) {
  Create({.min_contributors = 1, .open_for = minutes(60)});
  Submit("a");
  engine_.clock.Advance(minutes(10));
  const auto close_time = Round().close_time;
  Restart(minutes(20));
  EXPECT_EQ(Round().state, RoundState::kOpen);
  EXPECT_LE(*Round().time_left, minutes(30));
  EXPECT_GT(*Round().time_left, minutes(29));
  EXPECT_LT(*Round().close_time - *close_time, seconds(1));
  engine_.clock.Advance(minutes(30));
  EXPECT_EQ(End().seal_reason, SealReason::kDeadline);
}

// [16]
TEST_F(PolicyRecoveryTest, DeadlineWhileTheServerIsDown_SealedAtTheStart) {
  Create({.min_contributors = 1, .open_for = minutes(60)});
  Submit("a");
  Restart(minutes(61));
  const RoundSnapshot round = End();
  EXPECT_EQ(round.state, RoundState::kPublished) << round.failure;
  EXPECT_EQ(round.manifest->contributors, 1u);
  Restart();
  EXPECT_EQ(Round().seal_reason, SealReason::kDeadline) << "the reason is kept";
  EXPECT_EQ(Round().manifest->seal_reason, SealReason::kDeadline);
}

// [13] [16]
TEST_F(PolicyRecoveryTest, DeadlineBelowTheMinimumWhileTheServerIsDown_AbortedAtTheStart) {
  Create({.min_contributors = 2, .open_for = minutes(60)});
  Submit("a");
  Restart(minutes(61));
  EXPECT_THAT(End().failure, HasSubstr("INSUFFICIENT_CONTRIBUTORS"));
  Restart();
  EXPECT_EQ(Round().state, RoundState::kAborted);
  EXPECT_THAT(Round().failure, HasSubstr("INSUFFICIENT_CONTRIBUTORS"));
}

// [16]
TEST_F(PolicyRecoveryTest, AWallClockSetBackWhileTheServerIsDownDoesNotMakeMoreTime) {
  Create({.open_for = minutes(60)});
  engine_.clock.Advance(minutes(20));
  Restart(minutes(0), -hours(24));
  EXPECT_LE(*Round().time_left, minutes(60)) << "never more than there was when it was stored";
  engine_.clock.Advance(minutes(60));
  EXPECT_EQ(End().seal_reason, SealReason::kDeadline);
}

// [16]
TEST_F(PolicyRecoveryTest, AWallClockSetWhileTheServerRunsMovesNoDeadlineAfterARestart) {
  for (const auto set_by : {hours(24), hours(-24)}) {
    const std::string id = set_by.count() > 0 ? "forward" : "back";
    const std::string name = "rounds/" + id;
    engine_.Create(RoundSpec{.tensors = {Sparse("t", 100)},
                             .durability = Durability::kDurable,
                             .policy = {.open_for = minutes(60)}},
                   id);
    const auto close_time = engine_->GetRound(name)->close_time;
    engine_.clock.SetWallClockBy(set_by);
    engine_.clock.Advance(minutes(10));
    // The server has noticed once it reports the new time of the deadline.
    while (engine_->GetRound(name)->close_time == close_time) std::this_thread::yield();
    engine_->Drain();  // and has stored it
    Restart(minutes(10));
    EXPECT_EQ(engine_->GetRound(name)->state, RoundState::kOpen);
    EXPECT_LE(*engine_->GetRound(name)->time_left, minutes(40));
    EXPECT_GT(*engine_->GetRound(name)->time_left, minutes(39));
    engine_.clock.Advance(minutes(40));
    EXPECT_EQ(engine_.WaitUntilFinal(name).seal_reason, SealReason::kDeadline);
  }
}

// [9], before the cut
TEST_F(PolicyRecoveryTest, CrashBetweenTheGoalAndTheSeal_SealedAtTheStart) {
  Create({.goal_contributors = 2});
  engine_.clock.Stop();  // sealing reads the clock
  Submit("a");
  Submit("b");
  std::filesystem::copy(folder_.path(), copies_.path() + "/copy",
                        std::filesystem::copy_options::recursive);
  EXPECT_EQ(Round().state, RoundState::kOpen);
  engine_.clock.GoOn();
  TestEngine other(testing::MakeBackend("cpu"), [&] { return Open(copies_.path() + "/copy"); });
  ASSERT_TRUE(other->Recover().ok());
  const RoundSnapshot round = other.WaitUntilFinal(kRound);
  EXPECT_EQ(round.seal_reason, SealReason::kGoal);
  EXPECT_EQ(round.manifest->contributors, 2u);
}

TEST_F(PolicyRecoveryTest, TheGraceGoesOnOverARestart) {
  Create({.goal_contributors = 1, .grace = minutes(10)});
  Submit("a");
  engine_->Drain();  // the start of the grace period is stored
  engine_.clock.Advance(minutes(4));
  Restart(minutes(2));
  Submit("b");
  EXPECT_LE(*Round().time_left, minutes(4));
  EXPECT_GT(*Round().time_left, minutes(3));
  engine_.clock.Advance(minutes(4));
  EXPECT_EQ(End().seal_reason, SealReason::kGoal);
  EXPECT_EQ(Round().manifest->contributors, 2u);
}

TEST_F(PolicyRecoveryTest, TheMaximumHoldsOverARestart) {
  Create({.max_contributors = 1});
  Submit("a");
  Restart();
  EXPECT_THAT(
      engine_.Submit(TestUpdate(kRound, "b").Add<float>(Sparse("t", 100), {1}, {1})).status(),
      testing::FailsWith(absl::StatusCode::kResourceExhausted, "ROUND_FULL"));
}

}  // namespace
}  // namespace sparseagg
