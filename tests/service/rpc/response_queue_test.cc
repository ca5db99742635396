#include "service/rpc/stream/response_queue.h"

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

TEST(ResponseQueueTest, TakesOneAnswerUnlessBatchesAreEnabled) {
  ResponseQueue answers;
  for (int i = 0; i < 4; ++i) answers.Push(Answer(i), ResponseQueue::kMayWait);
  EXPECT_EQ(IdsOf(answers.Take()), std::vector<std::string>({"0"}));
  answers.EnableBatches();
  EXPECT_EQ(IdsOf(answers.Take()), std::vector<std::string>({"1", "2", "3"}));
  EXPECT_TRUE(answers.empty());
}

TEST(ResponseQueueTest, AMessageHasAtMostBatchMaxAnswers) {
  ResponseQueue answers;
  answers.EnableBatches();
  for (int i = 0; i < ResponseQueue::kBatchMax + 5; ++i) {
    answers.Push(Answer(i), ResponseQueue::kMayWait);
  }
  EXPECT_EQ(IdsOf(answers.Take()).size(), ResponseQueue::kBatchMax);
  EXPECT_EQ(answers.size(), 5u);
  EXPECT_EQ(IdsOf(answers.Take()).front(), std::to_string(ResponseQueue::kBatchMax));
}

TEST(ResponseQueueTest, IsFullAtAnswersMax) {
  ResponseQueue answers;
  for (size_t i = 0; i < ResponseQueue::kAnswersMax; ++i) {
    EXPECT_FALSE(answers.full());
    answers.Push(Answer(1), ResponseQueue::kAtOnce);
  }
  EXPECT_TRUE(answers.full());
  answers.Take();
  EXPECT_FALSE(answers.full());
}

TEST(ResponseQueueTest, IsFullAtBytesMax) {
  v1::StreamUpdatesResponse refusal = Answer(1);
  refusal.mutable_error()->set_message(std::string(2000, 'm'));
  ResponseQueue answers;
  size_t pushed = 0;
  for (; !answers.full(); ++pushed) answers.Push(refusal, ResponseQueue::kAtOnce);
  EXPECT_EQ(pushed, ResponseQueue::kBytesMax / refusal.ByteSizeLong() + 1);
  answers.Take();
  EXPECT_FALSE(answers.full());
  answers.Push(refusal, ResponseQueue::kAtOnce);
  EXPECT_TRUE(answers.full());
  answers.Clear();
  EXPECT_FALSE(answers.full());
}

TEST(ResponseQueueTest, AnswersWaitOnlyIfBatchesAreEnabled) {
  ResponseQueue answers;
  answers.coalescer().OnMessage(std::chrono::microseconds(1));
  answers.Push(Answer(0), ResponseQueue::kMayWait);
  EXPECT_FALSE(answers.ShouldWait({}));
  answers.EnableBatches();
  EXPECT_TRUE(answers.ShouldWait({}));
  answers.Push(Answer(1), ResponseQueue::kAtOnce);
  EXPECT_FALSE(answers.ShouldWait({}));
}

TEST(ResponseQueueTest, GrpcMayBufferAMessageButNotTheFirst) {
  ResponseQueue answers;
  for (int i = 0; i < 3; ++i) answers.Push(Answer(i), ResponseQueue::kAtOnce);
  answers.Take();
  EXPECT_FALSE(answers.MayBufferTaken());
  answers.Take();
  EXPECT_TRUE(answers.MayBufferTaken());
  answers.Take();
  EXPECT_FALSE(answers.MayBufferTaken());  // nothing follows
}

}  // namespace
}  // namespace sparseagg
