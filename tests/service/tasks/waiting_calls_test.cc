#include "service/rpc/tasks/waiting_calls.h"

#include <gtest/gtest.h>

#include <vector>

namespace sparseagg {
namespace {

using Share = WaitingCalls::Share;

TEST(WaitingCallsTest, CallsAndTheirBytesAreBoundedAndACallThatIsAloneHasAPlace) {
  WaitingCalls waiting(/*calls_max=*/2, /*bytes_max=*/100);
  auto large = waiting.Enter(1000, Share::kAll);
  EXPECT_NE(large, nullptr);
  EXPECT_EQ(waiting.Enter(0, Share::kAll), nullptr) << "the bytes are taken";
  large.reset();
  large = waiting.Enter(1000, Share::kMost);
  EXPECT_NE(large, nullptr);
  large.reset();
  auto first = waiting.Enter(60, Share::kAll);
  EXPECT_EQ(waiting.Enter(41, Share::kAll), nullptr);
  auto second = waiting.Enter(40, Share::kAll);
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(waiting.Enter(0, Share::kAll), nullptr) << "the places are taken";
  first.reset();
  EXPECT_NE(waiting.Enter(60, Share::kAll), nullptr);
}

TEST(WaitingCallsTest, TheLastEighthOfTheCallsIsKept) {
  WaitingCalls waiting(/*calls_max=*/16, /*bytes_max=*/1000);
  std::vector<std::shared_ptr<void>> places;
  for (int i = 0; i < 14; ++i) places.push_back(waiting.Enter(1, Share::kMost));
  EXPECT_NE(places.back(), nullptr);
  EXPECT_EQ(waiting.Enter(1, Share::kMost), nullptr);
  for (int i = 0; i < 2; ++i) places.push_back(waiting.Enter(1, Share::kAll));
  EXPECT_NE(places.back(), nullptr);
  EXPECT_EQ(waiting.Enter(1, Share::kAll), nullptr);
}

TEST(WaitingCallsTest, TheLastEighthOfTheBytesIsKept) {
  WaitingCalls waiting(/*calls_max=*/100, /*bytes_max=*/800);
  const auto creation = waiting.Enter(600, Share::kMost);
  EXPECT_EQ(waiting.Enter(101, Share::kMost), nullptr);
  const auto other = waiting.Enter(100, Share::kMost);
  EXPECT_NE(other, nullptr);
  EXPECT_EQ(waiting.Enter(1, Share::kMost), nullptr);
  EXPECT_NE(waiting.Enter(100, Share::kAll), nullptr);
}

}  // namespace
}  // namespace sparseagg
