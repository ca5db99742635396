// Rounds that their policy ends. Numbers in brackets are the rows of the table of interleavings
// that a test covers (docs/decisions/0007-round-policy.md).
#include <atomic>
#include <set>
#include <thread>

#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::Each;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::Sparse;
using testing::TestUpdate;
using testing::Values;

constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr char kRound[] = "rounds/r";

const TensorSpec kSpec = Sparse("who", 100'000);

// Contributor i adds 1 at coordinate i, so that the result shows who was counted.
TestUpdate UpdateOf(int64_t i) {
  return TestUpdate(kRound, "c" + std::to_string(i)).Add<float>(kSpec, {i}, {1});
}

class PolicyTest : public ::testing::Test {
 protected:
  PolicyTest() { engine_.options.check_interval = milliseconds(1); }
  RoundSnapshot Create(const RoundPolicy& policy) {
    return engine_.Create(RoundSpec{.tensors = {kSpec}, .policy = policy});
  }
  void Submit(int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const auto receipt = engine_.Submit(UpdateOf(i));
      ASSERT_TRUE(receipt.ok()) << receipt.status();
    }
  }
  RoundSnapshot Round() { return *engine_->GetRound(kRound); }
  RoundSnapshot End() { return engine_.WaitUntilFinal(kRound); }
  std::set<int64_t> Counted() {
    const SparseTensor& tensor = engine_->Result(kRound).value()->tensors[0];
    EXPECT_THAT(Values<float>(tensor), Each(1.0f)) << "somebody was counted twice";
    return {tensor.indices.begin(), tensor.indices.end()};
  }

  testing::TestEngine engine_;
};

TEST_F(PolicyTest, WithoutAPolicyARoundIsOpenUntilItIsSealed) {
  const RoundSnapshot round = Create({});
  EXPECT_FALSE(round.close_time || round.time_left || round.goal_reached || round.seal_reason);
  Submit(0, 3);
  engine_.clock.Advance(hours(24 * 365));
  EXPECT_EQ(Round().state, RoundState::kOpen);
  engine_.SealAndWait(kRound);
  EXPECT_EQ(Round().seal_reason, SealReason::kRequested);
  EXPECT_EQ(Round().manifest->seal_reason, SealReason::kRequested);
}

TEST_F(PolicyTest, ARoundIsSealedAtItsGoal) {
  Create({.goal_contributors = 3});
  Submit(0, 2);
  EXPECT_EQ(Round().state, RoundState::kOpen);
  EXPECT_FALSE(Round().goal_reached);
  Submit(2, 3);
  const RoundSnapshot round = End();
  EXPECT_EQ(round.state, RoundState::kPublished) << round.failure;
  EXPECT_EQ(round.seal_reason, SealReason::kGoal);
  EXPECT_TRUE(round.goal_reached);
  EXPECT_EQ(Counted(), (std::set<int64_t>{0, 1, 2}));
}

// [12]
TEST_F(PolicyTest, GoalReachedWithManyUpdatesInFlight_TheCutIsExactAndOthersAreLate) {
  constexpr int kThreads = 32;
  constexpr int kEach = 50;
  constexpr uint64_t kGoal = 300;
  Create({.goal_contributors = kGoal});
  std::mutex mutex;
  std::set<int64_t> acknowledged;
  std::atomic<uint64_t> late = 0;
  {
    engine_.clock.Stop();  // the result is published when all calls have returned
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          const auto receipt = engine_.Submit(UpdateOf(t * kEach + i));
          if (receipt.ok()) {
            std::lock_guard lock(mutex);
            acknowledged.insert(t * kEach + i);
            continue;
          }
          ++late;
          EXPECT_THAT(receipt.status(), FailsWith(kPrecondition, "ROUND_NOT_OPEN"));
          EXPECT_EQ(ErrorMetadata(receipt.status())["closed_by"], "GOAL");
          EXPECT_EQ(RetryAfterMs(receipt.status()), 0u);
        }
      });
    }
  }
  engine_.clock.GoOn();
  const RoundSnapshot round = End();
  EXPECT_EQ(round.contributors, kGoal);
  EXPECT_EQ(acknowledged.size(), kGoal);
  EXPECT_EQ(Counted(), acknowledged);
  EXPECT_EQ(late, kThreads * kEach - kGoal);
  EXPECT_EQ(round.manifest->late, (std::map<std::string, uint64_t>{{"GOAL", late}}));
  EXPECT_EQ(round.manifest->rejected.at("ROUND_NOT_OPEN"), late);
}

// [8], by the deadline
TEST_F(PolicyTest, SubmitRacesTheDeadline_AcknowledgedAndIncludedOrRefused) {
  Create({.open_for = minutes(1)});
  std::mutex mutex;
  std::set<int64_t> acknowledged;
  std::atomic<int64_t> next = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        while (true) {
          const int64_t i = next++;
          if (i == 500) engine_.clock.Advance(minutes(1));
          const auto receipt = engine_.Submit(UpdateOf(i));
          if (!receipt.ok()) {
            EXPECT_THAT(receipt.status(), FailsWith(kPrecondition, "ROUND_NOT_OPEN"));
            return;
          }
          std::lock_guard lock(mutex);
          acknowledged.insert(i);
        }
      });
    }
  }
  const RoundSnapshot round = End();
  EXPECT_EQ(round.seal_reason, SealReason::kDeadline);
  EXPECT_EQ(Counted(), acknowledged);
  EXPECT_EQ(round.contributors, acknowledged.size());
}

// [10]
TEST_F(PolicyTest, SealingARoundThatItsPolicySealedChangesNothing) {
  Create({.goal_contributors = 1});
  Submit(0, 1);
  const RoundSnapshot sealed = End();
  const auto again = engine_->SealRound(kRound);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->seal_reason, SealReason::kGoal);
  EXPECT_EQ(again->revision, sealed.revision);
}

TEST_F(PolicyTest, InTheGraceFurtherUpdatesCount) {
  Create({.goal_contributors = 2, .grace = seconds(30)});
  Submit(0, 2);
  const RoundSnapshot reached = Round();
  EXPECT_TRUE(reached.goal_reached);
  ASSERT_TRUE(reached.close_time.has_value());
  EXPECT_GT(*reached.time_left, seconds(20));
  EXPECT_LE(*reached.time_left, seconds(30));
  Submit(2, 5);
  EXPECT_EQ(Round().state, RoundState::kOpen);
  engine_.clock.Advance(seconds(30));
  EXPECT_EQ(End().seal_reason, SealReason::kGoal);
  EXPECT_EQ(Counted().size(), 5u);
}

TEST_F(PolicyTest, AFullRoundDoesNotWaitForTheEndOfItsGrace) {
  Create({.goal_contributors = 2, .grace = hours(1), .max_contributors = 3});
  Submit(0, 3);
  EXPECT_EQ(End().seal_reason, SealReason::kGoal);
  EXPECT_EQ(Counted().size(), 3u);
}

TEST_F(PolicyTest, BeyondTheMaximumUpdatesAreRefusedForGoodAndResendsAnswered) {
  Create({.max_contributors = 2});
  Submit(0, 2);
  const auto refused = engine_.Submit(UpdateOf(2));
  EXPECT_THAT(refused.status(), FailsWith(absl::StatusCode::kResourceExhausted, "ROUND_FULL"));
  EXPECT_EQ(RetryAfterMs(refused.status()), 0u);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("maximum of 2"));
  EXPECT_TRUE(engine_.Submit(UpdateOf(1))->duplicate);
  EXPECT_EQ(Round().state, RoundState::kOpen) << "only a goal seals";
  engine_.SealAndWait(kRound);
  EXPECT_EQ(Round().manifest->late, (std::map<std::string, uint64_t>{{"FULL", 1}}));
}

// [13]
TEST_F(PolicyTest, DeadlineWithFewerThanTheMinimum_AbortedAndErased) {
  Create({.min_contributors = 3, .open_for = minutes(10)});
  Submit(0, 2);
  engine_.clock.Advance(minutes(10));
  const RoundSnapshot round = End();
  EXPECT_EQ(round.state, RoundState::kAborted);
  EXPECT_THAT(round.failure, HasSubstr("INSUFFICIENT_CONTRIBUTORS: 2 of at least 3"));
  EXPECT_EQ(round.time_left, std::nullopt);
  EXPECT_FALSE(engine_->Result(kRound).ok());
  EXPECT_EQ(engine_.store().Find(kRound, "c0"), std::nullopt) << "everything is erased";
  EXPECT_THAT(engine_.Submit(UpdateOf(0)).status(), FailsWith(kPrecondition, "ROUND_NOT_OPEN"));
  EXPECT_THAT(engine_->SealRound(kRound).status(), FailsWith(kPrecondition, "ROUND_NOT_OPEN"));
}

TEST_F(PolicyTest, DeadlineWithTheMinimum_Published) {
  Create({.goal_contributors = 100, .min_contributors = 2, .open_for = minutes(10)});
  Submit(0, 2);
  engine_.clock.Advance(minutes(10));
  EXPECT_EQ(End().seal_reason, SealReason::kDeadline);
  EXPECT_EQ(Counted().size(), 2u);
}

TEST_F(PolicyTest, BelowTheMinimumSealingByHandIsRefusedAndTheRoundGoesOn) {
  Create({.min_contributors = 2});
  Submit(0, 1);
  const auto refused = engine_->SealRound(kRound);
  EXPECT_THAT(refused.status(), FailsWith(kPrecondition, "INSUFFICIENT_CONTRIBUTORS"));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("1 of at least 2"));
  Submit(1, 2);
  engine_.SealAndWait(kRound);
  EXPECT_EQ(Counted().size(), 2u);
}

// [16], while the server runs
TEST_F(PolicyTest, AWallClockThatIsSetByADayMovesNoDeadline) {
  for (const auto set_by : {hours(24), hours(-24)}) {
    const std::string id = set_by.count() > 0 ? "forward" : "back";
    engine_.Create(RoundSpec{.tensors = {kSpec}, .policy = {.open_for = minutes(10)}}, id);
    engine_.clock.SetWallClockBy(set_by);
    engine_.clock.Advance(minutes(9));
    const RoundSnapshot open =
        engine_.WaitFor("rounds/" + id, [&](const RoundSnapshot&) { return true; });
    EXPECT_EQ(open.state, RoundState::kOpen);
    EXPECT_GT(*open.time_left, seconds(30));
    engine_.clock.Advance(minutes(1));
    EXPECT_EQ(engine_.WaitUntilFinal("rounds/" + id).seal_reason, SealReason::kDeadline);
  }
}

TEST_F(PolicyTest, TheTimeThatARoundIsOpenCountsFromItsCreation) {
  const RoundSnapshot round = Create({.open_for = minutes(5)});
  EXPECT_TRUE(*round.close_time - round.create_time == minutes(5));  // to the nanosecond
}

TEST_F(PolicyTest, UpdatesAfterTheDeadlineAreLateEvenBeforeTheRoundIsSealed) {
  engine_.options.check_interval = hours(1);  // no check until then
  Create({.open_for = hours(2)});
  Submit(0, 1);
  engine_.clock.Advance(hours(2));
  const auto late = engine_.Submit(UpdateOf(1));
  EXPECT_THAT(late.status(), FailsWith(kPrecondition, "ROUND_NOT_OPEN"));
  EXPECT_EQ(ErrorMetadata(late.status())["closed_by"], "DEADLINE");
  EXPECT_TRUE(engine_.Submit(UpdateOf(0))->duplicate);
}

TEST_F(PolicyTest, AChunkedUpdateThatIsNotCompleteAtTheDeadlineIsLate) {
  Create({.open_for = minutes(5)});
  TestUpdate update = UpdateOf(1);
  const auto upload = engine_->BeginUpload(update.header, update.headers());
  ASSERT_TRUE(upload.ok()) << upload.status();
  const std::string bytes = update.byte_string();
  ASSERT_TRUE((*upload)->Append(0, std::string_view(bytes).substr(0, 4), {}).ok());
  engine_.clock.Advance(minutes(5));
  End();
  EXPECT_THAT((*upload)->Append(4, std::string_view(bytes).substr(4), {}),
              FailsWith(kPrecondition, "ROUND_NOT_OPEN"));
}

TEST_F(PolicyTest, TheServersLimitIsADeadlineForAllRounds) {
  engine_.options.limits.round_open_ms_max = milliseconds(minutes(5)).count();
  const RoundSnapshot round = Create({});
  EXPECT_EQ(*round.close_time - round.create_time < minutes(11), true);
  EXPECT_THAT(engine_
                  ->CreateRound({.round_id = "long",
                                 .request_id = "",
                                 .spec = {.tensors = {kSpec}, .policy = {.open_for = minutes(11)}}})
                  .status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_POLICY"));
  engine_.clock.Advance(minutes(10));
  EXPECT_EQ(End().seal_reason, SealReason::kDeadline);
}

TEST_F(PolicyTest, ARepeatedRequestFindsItsRoundAfterTheDeadlineOfIt) {
  const CreateRoundArgs args = {
      .round_id = "r",
      .request_id = "once",
      .spec = {.tensors = {kSpec}, .policy = {.open_until = engine_.clock.Now() + minutes(1)}}};
  ASSERT_TRUE(engine_->CreateRound(args).ok());
  engine_.clock.Advance(minutes(1));
  End();
  const auto again = engine_->CreateRound(args);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->state, RoundState::kPublished);
  CreateRoundArgs other = args;
  other.spec.policy.min_contributors = 1;
  EXPECT_THAT(engine_->CreateRound(other).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, "REQUEST_ID_CONFLICT"));
}

TEST_F(PolicyTest, ADeletedRoundIsLeftAlone) {
  Create({.open_for = minutes(10)});
  ASSERT_TRUE(engine_->AbortRound(kRound).ok());
  ASSERT_TRUE(engine_->DeleteRound(kRound).ok());
  engine_.clock.Advance(minutes(10));
  engine_->Drain();
  EXPECT_TRUE(absl::IsNotFound(engine_->GetRound(kRound).status()));
}

}  // namespace
}  // namespace sparseagg
