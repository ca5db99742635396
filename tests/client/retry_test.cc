#include "client/retry.h"

#include <vector>

#include "sparse/status.h"
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
  EXPECT_TRUE(retry.Again(kUnavailable));
  EXPECT_TRUE(retry.Again(kUnavailable));
  EXPECT_FALSE(retry.Again(kUnavailable));
  EXPECT_EQ(waits.size(), 2u);
  EXPECT_TRUE(retry.repeated());
}

TEST(RetryLoopTest, TellsWhyEachRepeatedAttemptFailed) {
  std::vector<uint64_t> waits;
  ClientOptions options = Recording(waits, {2, 10, 10});
  std::vector<absl::Status> told;
  options.on_retry = [&told](const absl::Status& why) { told.push_back(why); };
  RetryLoop retry(options);
  EXPECT_TRUE(retry.Again(kUnavailable));
  EXPECT_FALSE(retry.Again(absl::UnavailableError("the last attempt: an answer, no repetition")));
  EXPECT_EQ(told, std::vector{kUnavailable});
}

TEST(RetryLoopTest, CountsAnewAfterProgress) {
  std::vector<uint64_t> waits;
  const ClientOptions options = Recording(waits, {2, 10, 10});
  RetryLoop retry(options);
  EXPECT_TRUE(retry.Again(kUnavailable));
  retry.MadeProgress();
  EXPECT_TRUE(retry.Again(kUnavailable));
}

TEST(RetryLoopTest, RepeatsOnlyWhatMayHelp) {
  std::vector<uint64_t> waits;
  const ClientOptions options = Recording(waits, {5, 10, 10});
  EXPECT_FALSE(RetryLoop(options).Again(absl::InvalidArgumentError("bad")));
  EXPECT_FALSE(RetryLoop(options).Again(absl::ResourceExhaustedError("no hint")));
  EXPECT_FALSE(RetryLoop(options).Again(absl::DeadlineExceededError("late")));
  EXPECT_TRUE(waits.empty());
  EXPECT_TRUE(RetryLoop(options).Again(
      WithRetryAfter(MakeError(absl::StatusCode::kResourceExhausted, "FULL", "full"), 300)));
  EXPECT_EQ(waits, (std::vector<uint64_t>{300}));
}

}  // namespace
}  // namespace sparseagg::client
