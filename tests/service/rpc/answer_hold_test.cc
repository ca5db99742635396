#include "service/rpc/stream/answer_hold.h"

#include <gtest/gtest.h>

namespace sparseagg {
namespace {

using std::chrono::microseconds;

constexpr AnswerHold::Time kBegin{};

// A coalescer whose stream's messages arrive closely behind one another.
AnswerHold InAStream() {
  AnswerHold hold;
  hold.OnMessage(microseconds(5));
  return hold;
}

// The smallest number of answers that do not wait. Changes the limit as sending a message does.
size_t Most(AnswerHold& hold) {
  size_t answers = 1;
  while (hold.Holds(answers, kBegin)) ++answers;
  return answers;
}

TEST(AnswerHoldTest, SendsAtOnceWhereMessagesAreFarApart) {
  AnswerHold hold;
  EXPECT_FALSE(hold.Holds(1, kBegin)) << "no message yet";
  hold.OnMessage(microseconds(100));
  EXPECT_FALSE(hold.Holds(1, kBegin));
  hold.OnMessage(microseconds(99));
  EXPECT_TRUE(hold.Holds(1, kBegin));
  hold.OnMessage(microseconds(2000));
  EXPECT_FALSE(hold.Holds(1, kBegin));
}

TEST(AnswerHoldTest, WaitsForOneMoreEachTime) {
  AnswerHold hold = InAStream();
  for (size_t most = 8; most < 128; ++most) EXPECT_EQ(Most(hold), most);
  EXPECT_EQ(Most(hold), 128u);
  EXPECT_EQ(Most(hold), 128u) << "and no longer";
}

TEST(AnswerHoldTest, WhatIsToGoAtOnceTakesTheOthersAlong) {
  AnswerHold hold = InAStream();
  EXPECT_TRUE(hold.Holds(3, kBegin));
  hold.SendNow();
  EXPECT_FALSE(hold.Holds(4, kBegin));
  EXPECT_TRUE(hold.Holds(1, kBegin)) << "once";
}

TEST(AnswerHoldTest, WaitsForFewerWhenTheSenderWaits) {
  AnswerHold hold = InAStream();
  EXPECT_TRUE(hold.Holds(6, kBegin));
  hold.TimeIsUp(6, microseconds(900));
  EXPECT_FALSE(hold.Holds(6, kBegin));
  EXPECT_EQ(Most(hold), 3u);
  EXPECT_TRUE(hold.Holds(1, kBegin));
  hold.TimeIsUp(1, microseconds(900));
  EXPECT_FALSE(hold.Holds(1, kBegin));
  EXPECT_EQ(Most(hold), 1u);
}

TEST(AnswerHoldTest, WaitsForATimeFromTheFirstOneOn) {
  AnswerHold hold = InAStream();
  const auto almost = AnswerHold::kTime - microseconds(1);
  EXPECT_TRUE(hold.Holds(1, kBegin));
  EXPECT_TRUE(hold.Holds(2, kBegin + almost));
  EXPECT_FALSE(hold.Holds(3, kBegin + AnswerHold::kTime));
  EXPECT_TRUE(hold.Holds(1, kBegin + AnswerHold::kTime)) << "the next ones wait anew";
  EXPECT_TRUE(hold.Holds(2, kBegin + AnswerHold::kTime + almost));
  EXPECT_EQ(Most(hold), 8u) << "whoever handles messages all the time has no sender that waits";
}

TEST(AnswerHoldTest, ASenderThatWasShortOfTimeIsNotOneThatWaits) {
  AnswerHold hold = InAStream();
  EXPECT_TRUE(hold.Holds(6, kBegin));
  hold.TimeIsUp(6, microseconds(90));
  EXPECT_FALSE(hold.Holds(6, kBegin));
  EXPECT_EQ(Most(hold), 8u);
}

}  // namespace
}  // namespace sparseagg
