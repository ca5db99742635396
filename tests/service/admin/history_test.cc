#include "service/admin/history.h"

#include <gtest/gtest.h>

namespace sparseagg {
namespace {

using std::chrono::seconds;
using std::chrono::system_clock;

system_clock::time_point At(int s) { return system_clock::time_point(seconds(s)); }

Totals TotalsOf(uint64_t accepted, uint64_t bytes) {
  Totals totals;
  totals.accepted = accepted;
  totals.payload_bytes = bytes;
  totals.submit_buckets.assign(SecondsBuckets().size() + 1, 0);
  return totals;
}

TEST(HistoryTest, ASampleIsWhatHappenedSinceTheLastOne) {
  History history;
  history.Add(At(10), TotalsOf(100, 5000), {});
  EXPECT_TRUE(history.After(0).empty());
  history.Add(At(12), TotalsOf(110, 9000), {.staged_bytes = 7});
  const auto samples = history.After(0);
  ASSERT_EQ(samples.size(), 1);
  EXPECT_EQ(samples[0].updates_per_s, 5);
  EXPECT_EQ(samples[0].bytes_per_s, 2000);
  EXPECT_EQ(samples[0].staged_bytes, 7);
  EXPECT_EQ(samples[0].submit_p99_s, 0);
}

TEST(HistoryTest, GivesOnlyWhatAReaderHasNotSeen) {
  History history;
  for (int i = 0; i <= 5; ++i) history.Add(At(i), TotalsOf(i, 0), {});
  const auto samples = history.After(3);
  ASSERT_EQ(samples.size(), 2);
  EXPECT_EQ(samples[0].number, 4);
  EXPECT_EQ(samples[1].number, 5);
}

TEST(HistoryTest, ForgetsTheOldest) {
  History history;
  const int added = static_cast<int>(History::kSamplesMax) + 10;
  for (int i = 0; i <= added; ++i) history.Add(At(i), TotalsOf(i, 0), {});
  const auto samples = history.After(0);
  EXPECT_EQ(samples.size(), History::kSamplesMax);
  EXPECT_EQ(samples.back().number, added);
}

TEST(HistoryTest, AQuantileLiesWithinItsBucket) {
  const std::vector<double> bounds = {1, 2, 4};
  EXPECT_EQ(Quantile({0, 0, 0, 0}, bounds, 0.5), 0);
  EXPECT_EQ(Quantile({2, 2, 0, 0}, bounds, 0.5), 1);
  EXPECT_EQ(Quantile({0, 4, 0, 0}, bounds, 0.5), 1.5);
  EXPECT_EQ(Quantile({1, 0, 1, 0}, bounds, 1.0), 4);
  EXPECT_EQ(Quantile({0, 0, 0, 3}, bounds, 0.5), 4);  // at least
}

}  // namespace
}  // namespace sparseagg
