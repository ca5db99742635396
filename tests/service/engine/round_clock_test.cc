// The time of a round is measured on the steady clock while a server runs, and on the wall clock
// between two servers.
#include "service/engine/round/round_clock.h"

#include <gtest/gtest.h>

namespace sparseagg {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

// `wall` and `steady` after the start of the test's time.
Moment At(milliseconds wall, milliseconds steady) {
  return {std::chrono::system_clock::time_point(hours(500'000) + wall),
          std::chrono::steady_clock::time_point(hours(50) + steady)};
}

TEST(RoundClockTest, CountsOnTheSteadyClockAndNeverBelowZero) {
  const RoundClock clock(seconds(60), At(seconds(0), seconds(0)));
  EXPECT_EQ(clock.UntilDeadline(At(hours(24), milliseconds(59'999)).steady), milliseconds(1));
  EXPECT_EQ(clock.UntilDeadline(At(hours(-24), seconds(60)).steady), seconds(0));
  EXPECT_EQ(clock.UntilDeadline(At(seconds(0), hours(9)).steady), seconds(0));
  EXPECT_EQ(clock.UntilGraceEnd(At(seconds(0), seconds(1)).steady), std::nullopt);
}

TEST(RoundClockTest, WithoutAnEndThereIsNone) {
  const RoundClock clock(std::nullopt, At(seconds(0), seconds(0)));
  EXPECT_EQ(clock.UntilDeadline(At(seconds(0), hours(9)).steady), std::nullopt);
  EXPECT_EQ(clock.CloseTime(), std::nullopt);
}

TEST(RoundClockTest, TheGraceStartsOnceAndTheEarlierEndCloses) {
  RoundClock clock(seconds(60), At(seconds(0), seconds(0)));
  EXPECT_EQ(clock.CloseTime(), At(seconds(60), seconds(0)).wall);
  clock.StartGrace(seconds(10), At(seconds(20), seconds(20)));
  clock.StartGrace(seconds(10), At(seconds(25), seconds(25)));
  EXPECT_EQ(clock.UntilGraceEnd(At({}, seconds(25)).steady), seconds(5));
  EXPECT_EQ(clock.UntilDeadline(At({}, seconds(25)).steady), seconds(35));
  EXPECT_EQ(clock.CloseTime(), At(seconds(30), seconds(0)).wall);
}

TEST(RoundClockTest, BetweenTwoServersTheWallClockCounts) {
  const RoundClock before(seconds(60), At(seconds(0), seconds(0)));
  // Another process, perhaps after a reboot, has an unrelated steady clock.
  const RoundClock after(before.anchor(), At(seconds(45), hours(7)));
  EXPECT_EQ(after.UntilDeadline(At({}, hours(7)).steady), seconds(15));
  EXPECT_EQ(after.UntilDeadline(At({}, hours(7) + seconds(15)).steady), seconds(0));
}

TEST(RoundClockTest, AWallClockSetBackBetweenTwoServersDoesNotMakeMoreOfTheTimeLeft) {
  RoundClock before(seconds(60), At(seconds(0), seconds(0)));
  before.AnchorAt(At(seconds(20), seconds(20)));
  const RoundClock after(before.anchor(), At(hours(-24), seconds(0)));
  EXPECT_EQ(after.UntilDeadline(At({}, seconds(0)).steady), seconds(40));
  const RoundClock ahead(before.anchor(), At(hours(24), seconds(0)));
  EXPECT_EQ(ahead.UntilDeadline(At({}, seconds(0)).steady), seconds(0));
}

TEST(RoundClockTest, NoticesThatTheWallClockWasSetAndMovesItsAnchor) {
  for (const auto set_by : {hours(24), hours(-24)}) {
    RoundClock clock(seconds(60), At(seconds(0), seconds(0)));
    EXPECT_FALSE(clock.WallClockWasSet(At(milliseconds(10'999), seconds(10))));
    EXPECT_FALSE(clock.WallClockWasSet(At(milliseconds(9'001), seconds(10))));
    const Moment now = At(set_by + seconds(10), seconds(10));
    ASSERT_TRUE(clock.WallClockWasSet(now));
    const RoundAnchor anchor = clock.AnchorAt(now);
    EXPECT_FALSE(clock.WallClockWasSet(now));
    EXPECT_EQ(anchor.until_deadline, seconds(50));
    EXPECT_EQ(clock.CloseTime(), now.wall + seconds(50));
    const RoundClock after(anchor, At(set_by + seconds(30), hours(3)));
    EXPECT_EQ(after.UntilDeadline(At({}, hours(3)).steady), seconds(30));
  }
}

}  // namespace
}  // namespace sparseagg
