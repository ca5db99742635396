#include "client/transport/retry.h"

#include <chrono>
#include <vector>

#include "base/status.h"
#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

ClientOptions Recording(std::vector<uint64_t>& waits, RetryPolicy policy) {
  ClientOptions options;
  options.retry = policy;
  options.sleep = [&waits](uint64_t ms) { waits.push_back(ms); };
  return options;
}

const absl::Status kUnavailable = absl::UnavailableError("gone");

absl::Status Busy(uint64_t hint_ms) {
  return WithRetryAfter(
      MakeError(absl::StatusCode::kResourceExhausted, "STAGING_FULL", "no memory at the moment"),
      hint_ms);
}

// A loop whose clock advances only while it sleeps, and by the test.
class BusyServerTest : public ::testing::Test {
 protected:
  BusyServerTest() {
    options_.retry = {5, 100, 5000};
    options_.sleep = [this](uint64_t ms) { Pass(ms); };
  }

  void Pass(uint64_t ms) { now_ += std::chrono::milliseconds(ms); }
  uint64_t PassedMs() const {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(now_ - RetryLoop::Time()).count());
  }
  // Returns how often the call is repeated before it fails.
  int RepeatUntilGivenUp(const absl::Status& status) {
    int repeated = 0;
    while (repeated < 10'000 && retry_.WaitToRetry(status)) ++repeated;
    return repeated;
  }

  ClientOptions options_;
  RetryLoop::Time now_;
  RetryLoop retry_{options_, TimeLimits(), [this] { return now_; }};
};

TEST(RetryDelayTest, DoublesUpToTheLimitAndTakesAtMostHalfOff) {
  const RetryPolicy policy{10, 100, 1000};
  EXPECT_EQ(RetryDelayMs(policy, 1, 0, 0), 100u);
  EXPECT_EQ(RetryDelayMs(policy, 3, 0, 0), 400u);
  EXPECT_EQ(RetryDelayMs(policy, 9, 0, 0), 1000u);
  EXPECT_EQ(RetryDelayMs(policy, 1, 0, 0.999), 51u);
}

TEST(RetryDelayTest, IsNeverShorterThanTheServersHint) {
  EXPECT_EQ(RetryDelayMs({10, 100, 1000}, 1, 7000, 0.5), 7000u);
}

TEST(RetryLoopTest, StopsAfterTheLastAttempt) {
  std::vector<uint64_t> waits;
  const ClientOptions options = Recording(waits, {3, 10, 10});
  RetryLoop retry(options);
  EXPECT_TRUE(retry.WaitToRetry(kUnavailable));
  EXPECT_TRUE(retry.WaitToRetry(kUnavailable));
  EXPECT_FALSE(retry.WaitToRetry(kUnavailable));
  EXPECT_EQ(waits.size(), 2u);
  EXPECT_TRUE(retry.repeated());
}

TEST(RetryLoopTest, TellsWhyEachRepeatedAttemptFailed) {
  std::vector<uint64_t> waits;
  ClientOptions options = Recording(waits, {2, 10, 10});
  std::vector<absl::Status> told;
  options.on_retry = [&told](const absl::Status& why) { told.push_back(why); };
  RetryLoop retry(options);
  EXPECT_TRUE(retry.WaitToRetry(kUnavailable));
  EXPECT_FALSE(
      retry.WaitToRetry(absl::UnavailableError("the last attempt: an answer, no repetition")));
  EXPECT_EQ(told, std::vector{kUnavailable});
}

TEST(RetryLoopTest, CountsAnewAfterProgress) {
  std::vector<uint64_t> waits;
  const ClientOptions options = Recording(waits, {2, 10, 10});
  RetryLoop retry(options);
  EXPECT_TRUE(retry.WaitToRetry(kUnavailable));
  retry.MadeProgress();
  EXPECT_TRUE(retry.WaitToRetry(kUnavailable));
}

TEST(RetryLoopTest, RepeatsOnlyWhatMayHelp) {
  std::vector<uint64_t> waits;
  const ClientOptions options = Recording(waits, {5, 10, 10});
  EXPECT_FALSE(RetryLoop(options).WaitToRetry(absl::InvalidArgumentError("bad")));
  EXPECT_FALSE(RetryLoop(options).WaitToRetry(absl::ResourceExhaustedError("no hint")));
  EXPECT_FALSE(RetryLoop(options).WaitToRetry(absl::DeadlineExceededError("late")));
  EXPECT_TRUE(waits.empty());
  EXPECT_TRUE(RetryLoop(options).WaitToRetry(Busy(300)));
  EXPECT_EQ(waits, (std::vector<uint64_t>{300}));
}

TEST(RetryLoopTest, RepeatsNothingWhereOneAttemptIsAll) {
  std::vector<uint64_t> waits;
  const ClientOptions options = Recording(waits, {1, 10, 10});
  EXPECT_FALSE(RetryLoop(options).WaitToRetry(kUnavailable));
  EXPECT_FALSE(RetryLoop(options).WaitToRetry(Busy(200)));
  EXPECT_TRUE(waits.empty());
}

// The hint of STAGING_FULL is 200 ms: a limit of 5 attempts would end within a second.
TEST_F(BusyServerTest, IsAskedForAMinuteHoweverManyAttemptsThatTakes) {
  options_.retry = {5, 100, 200};
  EXPECT_GT(RepeatUntilGivenUp(Busy(200)), 250);
  EXPECT_GT(PassedMs(), 59'000u);
  EXPECT_LE(PassedMs(), 60'000u);
}

TEST_F(BusyServerTest, IsGivenUpAfterTheTimeOfThePolicy) {
  options_.retry.busy_ms_max = 3000;
  EXPECT_GE(RepeatUntilGivenUp(Busy(200)), 3);
  EXPECT_LE(PassedMs(), 3000u);
  EXPECT_FALSE(retry_.WaitToRetry(Busy(200))) << "and stays so";
}

TEST_F(BusyServerTest, IsNotWaitedForLongerThanThat) {
  EXPECT_TRUE(retry_.WaitToRetry(Busy(60'000)));
  EXPECT_EQ(PassedMs(), 60'000u);
  retry_.MadeProgress();
  EXPECT_FALSE(retry_.WaitToRetry(Busy(60'001)));
  EXPECT_FALSE(retry_.WaitToRetry(Busy(~uint64_t{0})));
  EXPECT_EQ(PassedMs(), 60'000u);
}

TEST_F(BusyServerTest, TimeThatAttemptsTakeCounts) {
  EXPECT_TRUE(retry_.WaitToRetry(Busy(200)));
  Pass(60'000);
  EXPECT_FALSE(retry_.WaitToRetry(Busy(200)));
}

// The first attempt of a large update may take minutes until there is no memory for its last bytes.
TEST_F(BusyServerTest, TheTimeBeginsWithTheFirstFailure) {
  Pass(600'000);
  EXPECT_TRUE(retry_.WaitToRetry(Busy(200)));
}

TEST_F(BusyServerTest, ProgressGivesItsTimeAnew) {
  EXPECT_TRUE(retry_.WaitToRetry(Busy(200)));
  Pass(59'000);
  retry_.MadeProgress();
  EXPECT_TRUE(retry_.WaitToRetry(Busy(200)));
  Pass(59'000);
  EXPECT_TRUE(retry_.WaitToRetry(Busy(200)));
}

TEST_F(BusyServerTest, ItsAnswersAreNotAttemptsWithoutAConnection) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(retry_.WaitToRetry(Busy(200)));
  for (int i = 1; i < 5; ++i) EXPECT_TRUE(retry_.WaitToRetry(kUnavailable)) << i;
  EXPECT_FALSE(retry_.WaitToRetry(kUnavailable)) << "the fifth";
}

TEST_F(BusyServerTest, OneThatStopsIsCountedEvenWithAHint) {
  EXPECT_EQ(RepeatUntilGivenUp(WithRetryAfter(kUnavailable, 1000)), 4);
}

TEST_F(BusyServerTest, NoCallWaitsLongerThanTheTimeForAServerThatIsGone) {
  EXPECT_TRUE(retry_.WaitToRetry(WithRetryAfter(kUnavailable, 60'000)));
  EXPECT_FALSE(retry_.WaitToRetry(WithRetryAfter(kUnavailable, 3'600'000)));
}

TEST_F(BusyServerTest, WithoutANumberOfAttemptsTheTimeOfTheCallDecides) {
  options_.retry = {0, 100, 5000};
  RetryLoop call(options_, {60'000, 0}, [this] { return now_; });
  int repeated = 0;
  while (repeated < 10'000 && call.WaitToRetry(kUnavailable)) ++repeated;
  EXPECT_GT(PassedMs(), 59'500u) << "a caller with a minute has a minute";
  EXPECT_LT(PassedMs(), 60'000u);
  EXPECT_GT(repeated, 10);
  EXPECT_LE(call.attempt_ms(), 500u);
  Pass(60'000);
  EXPECT_EQ(call.attempt_ms(), 1u) << "0 would be without an end";
}

TEST_F(BusyServerTest, WithoutALimitNothingEndsIt) {
  options_.retry = {0, 100, 5000};
  int repeated = 0;
  while (repeated < 1000 && retry_.WaitToRetry(kUnavailable)) ++repeated;
  EXPECT_EQ(repeated, 1000);
  EXPECT_EQ(retry_.attempt_ms(), 0u);
}

TEST_F(BusyServerTest, ATransferHasItsTimeWithoutAServerFromTheFirstFailureOn) {
  options_.retry = {0, 100, 5000};
  RetryLoop transfer(options_, {3'600'000, 30'000}, [this] { return now_; });
  Pass(600'000);
  EXPECT_TRUE(transfer.WaitToRetry(kUnavailable));
  Pass(25'000);
  transfer.MadeProgress();
  EXPECT_TRUE(transfer.WaitToRetry(kUnavailable));
  Pass(30'000);
  EXPECT_FALSE(transfer.WaitToRetry(kUnavailable));
}

TEST_F(BusyServerTest, AHintBeyondTheTimeOfTheCallIsNotWaitedFor) {
  RetryLoop call(options_, {10'000, 0}, [this] { return now_; });
  EXPECT_TRUE(call.WaitToRetry(Busy(4000)));
  EXPECT_FALSE(call.WaitToRetry(Busy(7000)));
  EXPECT_EQ(PassedMs(), 4000u);
}

// A restart that takes minutes does not count as time in which the server was busy.
TEST_F(BusyServerTest, ARestartGivesItsTimeAnew) {
  EXPECT_TRUE(retry_.WaitToRetry(Busy(200)));
  Pass(100'000);
  EXPECT_TRUE(retry_.WaitToRetry(kUnavailable));
  EXPECT_TRUE(retry_.WaitToRetry(Busy(200)));
}

TEST_F(BusyServerTest, AndGoneInTurnEndsAfterTheAttempts) {
  int repeated = 0;
  while (repeated < 100 && retry_.WaitToRetry(Busy(200)) && retry_.WaitToRetry(kUnavailable))
    ++repeated;
  EXPECT_EQ(repeated, 4);
}

}  // namespace
}  // namespace sparseagg::client
