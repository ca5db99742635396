#include "cpu/windowed/work_stealing_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace sparseagg {
namespace {

using ::testing::Each;

TEST(WorkStealingRanges, EachThreadTakesItsOwnStripInOrder) {
  WorkStealingRanges strips(6, 2);
  ASSERT_EQ(strips.size(), 2);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t strip = 0; strip < 2; ++strip) {
      const auto taken = strips.Take(strip);
      ASSERT_TRUE(taken);
      EXPECT_EQ(taken->range, 3 * strip + i);
      EXPECT_EQ(taken->follows, i > 0);
    }
  }
  EXPECT_FALSE(strips.Take(0));
  EXPECT_FALSE(strips.Take(1));
}

TEST(WorkStealingRanges, ThenStealsTheLastRangeOfTheStripWithMostLeft) {
  WorkStealingRanges strips(9, 3);  // {0 1 2} {3 4 5} {6 7 8}
  for (int i = 0; i < 3; ++i) strips.Take(0);
  strips.Take(1);
  const auto taken = strips.Take(0);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->range, 8);
  EXPECT_FALSE(taken->follows);
  EXPECT_EQ(strips.Take(2)->range, 6);
  EXPECT_EQ(strips.Take(2)->range, 7);
  EXPECT_EQ(strips.Take(2)->range, 5);
}

TEST(WorkStealingRanges, NoMoreStripsThanRanges) {
  EXPECT_EQ(WorkStealingRanges(3, 8).size(), 3);
  EXPECT_EQ(WorkStealingRanges(0, 8).size(), 0);
}

TEST(WorkStealingRanges, ThreadsTakeEachRangeOnce) {
  constexpr size_t kRanges = 10'000;
  WorkStealingRanges strips(kRanges, 4);
  std::vector<int> times(kRanges, 0);
  std::vector<std::jthread> threads;
  for (size_t strip = 0; strip < strips.size(); ++strip) {
    threads.emplace_back([&, strip] {
      while (const auto taken = strips.Take(strip)) ++times[taken->range];
    });
  }
  threads.clear();
  EXPECT_THAT(times, Each(1));
}

}  // namespace
}  // namespace sparseagg
