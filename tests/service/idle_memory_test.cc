#include "service/idle_memory.h"

#include <gtest/gtest.h>

namespace sparseagg {
namespace {

TEST(IdleMemoryTest, IsTheLeastThatWasFreeInAPeriod) {
  IdleMemory idle(3);
  EXPECT_EQ(idle.Look(50), 0u);
  EXPECT_EQ(idle.Look(20), 0u);
  EXPECT_EQ(idle.Look(90), 20u);
  // What was free before does not count.
  EXPECT_EQ(idle.Look(70), 0u);
  EXPECT_EQ(idle.Look(70), 0u);
  EXPECT_EQ(idle.Look(70), 70u);
}

TEST(IdleMemoryTest, IsNoneWhileARoundTakesAllNowAndAgain) {
  IdleMemory idle(4);
  for (int look = 0; look < 40; ++look) EXPECT_EQ(idle.Look(look % 4 == 2 ? 0 : 1000), 0u);
}

TEST(IdleMemoryTest, IsAllThatIsFreeWhereAPeriodIsOneLook) {
  IdleMemory idle(1);
  EXPECT_EQ(idle.Look(7), 7u);
  EXPECT_EQ(idle.Look(0), 0u);
  EXPECT_EQ(idle.Look(9), 9u);
}

}  // namespace
}  // namespace sparseagg
