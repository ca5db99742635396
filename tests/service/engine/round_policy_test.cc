// The rules for the end of a round, tested without a round.
#include "service/engine/round_policy.h"

#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FailsWith;
using ::testing::HasSubstr;

const std::chrono::system_clock::time_point kNow{std::chrono::hours(500'000)};

TEST(RoundPolicyTest, RefusesWhatContradictsItselfAndNamesTheField) {
  struct Case {
    RoundPolicy policy;
    const char* says;
  };
  Limits limits;
  limits.round_open_ms_max = milliseconds(hours(48)).count();
  const Case cases[] = {
      {{.goal_contributors = 10, .min_contributors = 11}, "min_contributors is 11"},
      {{.goal_contributors = 10, .max_contributors = 9}, "goal_contributors is 10"},
      {{.min_contributors = 10, .max_contributors = 9}, "min_contributors is 10"},
      {{.goal_contributors = 1, .grace = milliseconds(-1)}, "policy.grace is negative"},
      {{.grace = seconds(1)}, "needs policy.goal_contributors"},
      {{.goal_contributors = 1, .grace = kPolicyTimeMax + milliseconds(1)}, "10 years"},
      {{.goal_contributors = 1, .grace = hours(49)}, "round-open-ms-max = 172800000"},
      {{.open_for = milliseconds(0)}, "open_for must be above 0"},
      {{.open_for = milliseconds(-5)}, "open_for must be above 0"},
      {{.open_for = hours(49)}, "open_for is 176400000 ms, above round-open-ms-max"},
      {{.open_for = seconds(1), .open_until = kNow}, "both set"},
  };
  for (const Case& c : cases) {
    const absl::Status status = CheckPolicy(c.policy, limits);
    EXPECT_THAT(status, FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_POLICY"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.says));
  }
}

TEST(RoundPolicyTest, TakesNoPolicyAndEveryBoundAtItsEdge) {
  EXPECT_TRUE(CheckPolicy({}, {}).ok());
  EXPECT_TRUE(CheckPolicy({.goal_contributors = 7,
                           .grace = kPolicyTimeMax,
                           .min_contributors = 7,
                           .max_contributors = 7,
                           .open_for = kPolicyTimeMax},
                          {})
                  .ok());
}

TEST(RoundPolicyTest, ADeadlineIsInTheFutureAndWithinTheLimit) {
  Limits limits;
  EXPECT_EQ(*TimeOpen({}, limits, kNow), std::nullopt);
  EXPECT_EQ(*TimeOpen({.open_for = seconds(3)}, limits, kNow), seconds(3));
  EXPECT_EQ(*TimeOpen({.open_until = kNow + seconds(4)}, limits, kNow), seconds(4));
  for (const auto past : {seconds(0), seconds(-1)}) {
    const auto time = TimeOpen({.open_until = kNow + past}, limits, kNow);
    EXPECT_THAT(time.status(), FailsWith(absl::StatusCode::kInvalidArgument, "INVALID_POLICY"));
    EXPECT_THAT(std::string(time.status().message()), HasSubstr("not in the future"));
  }
  EXPECT_FALSE(TimeOpen({.open_until = kNow + kPolicyTimeMax + hours(1)}, limits, kNow).ok());
  limits.round_open_ms_max = 5000;
  EXPECT_EQ(*TimeOpen({}, limits, kNow), seconds(5)) << "the limit is a deadline for all";
  EXPECT_FALSE(TimeOpen({.open_until = kNow + seconds(6)}, limits, kNow).ok());
}

TEST(RoundPolicyTest, WithoutAGraceTheGoalIsTheCapacity) {
  EXPECT_EQ(Capacity({}), 0u);
  EXPECT_EQ(Capacity({.max_contributors = 9}), 9u);
  EXPECT_EQ(Capacity({.goal_contributors = 5, .max_contributors = 9}), 5u);
  EXPECT_EQ(Capacity({.goal_contributors = 5, .grace = seconds(1), .max_contributors = 9}), 9u);
  EXPECT_EQ(Capacity({.goal_contributors = 5, .grace = seconds(1)}), 0u);
}

TEST(RoundPolicyTest, ClosesAtTheGoalAfterTheGraceOrAtTheDeadline) {
  struct Case {
    const char* what;
    RoundPolicy policy;
    RoundProgress progress;
    std::optional<SealReason> reason;
  };
  const RoundPolicy goal = {.goal_contributors = 2};
  const RoundPolicy grace = {.goal_contributors = 2, .grace = seconds(9), .max_contributors = 4};
  const Case cases[] = {
      {"no policy", {}, {.contributors = 99}, {}},
      {"below the goal", goal, {.contributors = 1}, {}},
      {"at the goal", goal, {.contributors = 2}, SealReason::kGoal},
      {"the grace has not begun", grace, {.contributors = 2}, {}},
      {"in the grace", grace, {.contributors = 3, .until_grace_end = milliseconds(1)}, {}},
      {"after it", grace, {.contributors = 3, .until_grace_end = seconds(0)}, SealReason::kGoal},
      {"full in the grace",
       grace,
       {.contributors = 4, .until_grace_end = seconds(5)},
       SealReason::kGoal},
      {"full without a goal", {.max_contributors = 4}, {.contributors = 4}, {}},
      {"before the deadline", goal, {.until_deadline = milliseconds(1)}, {}},
      {"at the deadline", goal, {.until_deadline = milliseconds(0)}, SealReason::kDeadline},
      {"the deadline ends the grace",
       grace,
       {.contributors = 2, .until_deadline = seconds(0), .until_grace_end = seconds(1)},
       SealReason::kDeadline},
      {"both at once",
       grace,
       {.contributors = 2, .until_deadline = seconds(0), .until_grace_end = seconds(0)},
       SealReason::kGoal},
  };
  for (const Case& c : cases) EXPECT_EQ(ReasonToClose(c.policy, c.progress), c.reason) << c.what;
}

TEST(RoundPolicyTest, LooksAgainAtTheEarlierEnd) {
  EXPECT_EQ(TimeLeft({}), std::nullopt);
  EXPECT_EQ(TimeLeft({.until_deadline = seconds(3)}), seconds(3));
  EXPECT_EQ(TimeLeft({.until_grace_end = seconds(2)}), seconds(2));
  EXPECT_EQ(TimeLeft({.until_deadline = seconds(3), .until_grace_end = seconds(2)}), seconds(2));
}

TEST(RoundPolicyTest, BelowTheMinimumThereIsNoResult) {
  const RoundPolicy policy = {.min_contributors = 3};
  EXPECT_EQ(HowToClose(policy, SealReason::kDeadline, 2), Closing::kGiveUp);
  EXPECT_EQ(HowToClose(policy, SealReason::kRequested, 2), Closing::kRefuse);
  for (const SealReason reason : {SealReason::kDeadline, SealReason::kRequested}) {
    EXPECT_EQ(HowToClose(policy, reason, 3), Closing::kSeal);
    EXPECT_EQ(HowToClose({}, reason, 0), Closing::kSeal);
  }
}

}  // namespace
}  // namespace sparseagg
