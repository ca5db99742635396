#include "service/rpc/stream/answer_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace sparseagg {
namespace {

v1::StreamUpdatesResponse Answer(int number) {
  v1::StreamUpdatesResponse answer;
  answer.set_update_id(std::to_string(number));
  return answer;
}

std::vector<std::string> IdsOf(const v1::StreamUpdatesResponse& message) {
  std::vector<std::string> ids = {message.update_id()};
  for (const auto& other : message.more()) ids.push_back(other.update_id());
  return ids;
}

TEST(AnswerQueueTest, GivesOneAtATimeUnlessTheCallerTakesMore) {
  AnswerQueue answers;
  for (int i = 0; i < 4; ++i) answers.Push(Answer(i), AnswerQueue::kMayWait);
  EXPECT_EQ(IdsOf(answers.Take()), std::vector<std::string>({"0"}));
  answers.SendTogether();
  EXPECT_EQ(IdsOf(answers.Take()), std::vector<std::string>({"1", "2", "3"}));
  EXPECT_TRUE(answers.empty());
}

TEST(AnswerQueueTest, AMessageHasNoMoreThanItsShare) {
  AnswerQueue answers;
  answers.SendTogether();
  for (int i = 0; i < AnswerQueue::kTogetherMax + 5; ++i) {
    answers.Push(Answer(i), AnswerQueue::kMayWait);
  }
  EXPECT_EQ(IdsOf(answers.Take()).size(), AnswerQueue::kTogetherMax);
  EXPECT_EQ(answers.size(), 5u);
  EXPECT_EQ(IdsOf(answers.Take()).front(), std::to_string(AnswerQueue::kTogetherMax));
}

TEST(AnswerQueueTest, IsFullOfManyAnswers) {
  AnswerQueue answers;
  for (size_t i = 0; i < AnswerQueue::kAnswersMax; ++i) {
    EXPECT_FALSE(answers.full());
    answers.Push(Answer(1), AnswerQueue::kAtOnce);
  }
  EXPECT_TRUE(answers.full());
  answers.Take();
  EXPECT_FALSE(answers.full());
}

TEST(AnswerQueueTest, IsFullOfLongAnswers) {
  v1::StreamUpdatesResponse refusal = Answer(1);
  refusal.mutable_error()->set_message(std::string(2000, 'm'));
  AnswerQueue answers;
  size_t pushed = 0;
  for (; !answers.full(); ++pushed) answers.Push(refusal, AnswerQueue::kAtOnce);
  EXPECT_EQ(pushed, AnswerQueue::kBytesMax / refusal.ByteSizeLong() + 1);
  answers.Take();
  EXPECT_FALSE(answers.full());
  answers.Push(refusal, AnswerQueue::kAtOnce);
  EXPECT_TRUE(answers.full());
  answers.Clear();
  EXPECT_FALSE(answers.full());
}

TEST(AnswerQueueTest, HoldsOnlyWhatGoesTogether) {
  AnswerQueue answers;
  answers.hold().OnMessage(std::chrono::microseconds(1));
  answers.Push(Answer(0), AnswerQueue::kMayWait);
  EXPECT_FALSE(answers.Holds({}));
  answers.SendTogether();
  EXPECT_TRUE(answers.Holds({}));
  answers.Push(Answer(1), AnswerQueue::kAtOnce);
  EXPECT_FALSE(answers.Holds({}));
}

TEST(AnswerQueueTest, GrpcMayKeepAMessageForTheNextButNotTheFirst) {
  AnswerQueue answers;
  for (int i = 0; i < 3; ++i) answers.Push(Answer(i), AnswerQueue::kAtOnce);
  answers.Take();
  EXPECT_FALSE(answers.MayKeepTaken());
  answers.Take();
  EXPECT_TRUE(answers.MayKeepTaken());
  answers.Take();
  EXPECT_FALSE(answers.MayKeepTaken());  // nothing follows
}

}  // namespace
}  // namespace sparseagg
