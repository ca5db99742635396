#include "service/rpc/stream/response_coalescer.h"

#include <gtest/gtest.h>

namespace sparseagg {
namespace {

using std::chrono::microseconds;

constexpr ResponseCoalescer::Time kBegin{};

// A coalescer whose stream's messages arrive closely behind one another.
ResponseCoalescer InAStream() {
  ResponseCoalescer coalescer;
  coalescer.OnMessage(microseconds(5));
  return coalescer;
}

// The smallest number of answers that do not wait. Changes the limit as sending a message does.
size_t CurrentLimit(ResponseCoalescer& coalescer) {
  size_t answers = 1;
  while (coalescer.ShouldWait(answers, kBegin)) ++answers;
  return answers;
}

TEST(ResponseCoalescerTest, DoesNotWaitWhenMessagesAreFarApart) {
  ResponseCoalescer coalescer;
  EXPECT_FALSE(coalescer.ShouldWait(1, kBegin)) << "no message yet";
  coalescer.OnMessage(microseconds(100));
  EXPECT_FALSE(coalescer.ShouldWait(1, kBegin));
  coalescer.OnMessage(microseconds(99));
  EXPECT_TRUE(coalescer.ShouldWait(1, kBegin));
  coalescer.OnMessage(microseconds(2000));
  EXPECT_FALSE(coalescer.ShouldWait(1, kBegin));
}

TEST(ResponseCoalescerTest, RaisesTheLimitAfterEachFullBatch) {
  ResponseCoalescer coalescer = InAStream();
  for (size_t most = 8; most < 128; ++most) EXPECT_EQ(CurrentLimit(coalescer), most);
  EXPECT_EQ(CurrentLimit(coalescer), 128u);
  EXPECT_EQ(CurrentLimit(coalescer), 128u) << "and no longer";
}

TEST(ResponseCoalescerTest, SendNowSendsTheWaitingAnswersToo) {
  ResponseCoalescer coalescer = InAStream();
  EXPECT_TRUE(coalescer.ShouldWait(3, kBegin));
  coalescer.SendNow();
  EXPECT_FALSE(coalescer.ShouldWait(4, kBegin));
  EXPECT_TRUE(coalescer.ShouldWait(1, kBegin)) << "once";
}

TEST(ResponseCoalescerTest, HalvesTheLimitWhenTheClientIsBlocked) {
  ResponseCoalescer coalescer = InAStream();
  EXPECT_TRUE(coalescer.ShouldWait(6, kBegin));
  coalescer.OnMaxDelay(6, microseconds(900));
  EXPECT_FALSE(coalescer.ShouldWait(6, kBegin));
  EXPECT_EQ(CurrentLimit(coalescer), 3u);
  EXPECT_TRUE(coalescer.ShouldWait(1, kBegin));
  coalescer.OnMaxDelay(1, microseconds(900));
  EXPECT_FALSE(coalescer.ShouldWait(1, kBegin));
  EXPECT_EQ(CurrentLimit(coalescer), 1u);
}

TEST(ResponseCoalescerTest, WaitsForAtMostMaxDelayFromTheFirstAnswer) {
  ResponseCoalescer coalescer = InAStream();
  const auto almost = ResponseCoalescer::kMaxDelay - microseconds(1);
  EXPECT_TRUE(coalescer.ShouldWait(1, kBegin));
  EXPECT_TRUE(coalescer.ShouldWait(2, kBegin + almost));
  EXPECT_FALSE(coalescer.ShouldWait(3, kBegin + ResponseCoalescer::kMaxDelay));
  EXPECT_TRUE(coalescer.ShouldWait(1, kBegin + ResponseCoalescer::kMaxDelay))
      << "the next ones wait again";
  EXPECT_TRUE(coalescer.ShouldWait(2, kBegin + ResponseCoalescer::kMaxDelay + almost));
  EXPECT_EQ(CurrentLimit(coalescer), 8u)
      << "a busy handler does not show that the client is blocked";
}

TEST(ResponseCoalescerTest, AShortWaitDoesNotLowerTheLimit) {
  ResponseCoalescer coalescer = InAStream();
  EXPECT_TRUE(coalescer.ShouldWait(6, kBegin));
  coalescer.OnMaxDelay(6, microseconds(90));
  EXPECT_FALSE(coalescer.ShouldWait(6, kBegin));
  EXPECT_EQ(CurrentLimit(coalescer), 8u);
}

}  // namespace
}  // namespace sparseagg
