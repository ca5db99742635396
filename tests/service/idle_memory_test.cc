#include "service/idle_memory.h"

#include <gtest/gtest.h>

namespace sparseagg {
namespace {

TEST(IdleMemoryTest, IsTheLeastThatWasFreeInAPeriod) {
  IdleMemory idle(3);
  EXPECT_EQ(idle.Sample(50), 0u);
  EXPECT_EQ(idle.Sample(20), 0u);
  EXPECT_EQ(idle.Sample(90), 20u);
  // Memory that was free before does not count.
  EXPECT_EQ(idle.Sample(70), 0u);
  EXPECT_EQ(idle.Sample(70), 0u);
  EXPECT_EQ(idle.Sample(70), 70u);
}

TEST(IdleMemoryTest, IsNoneWhileARoundTakesAllNowAndAgain) {
  IdleMemory idle(4);
  for (int sample = 0; sample < 40; ++sample)
    EXPECT_EQ(idle.Sample(sample % 4 == 2 ? 0 : 1000), 0u);
}

TEST(IdleMemoryTest, IsAllFreeBytesIfAPeriodIsOneSample) {
  IdleMemory idle(1);
  EXPECT_EQ(idle.Sample(7), 7u);
  EXPECT_EQ(idle.Sample(0), 0u);
  EXPECT_EQ(idle.Sample(9), 9u);
}

}  // namespace
}  // namespace sparseagg
