#include "service/tasks/poll_pacer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace sparseagg {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The poll of each worker is at a time drawn from its window, and nobody is told how many they are.
TEST(PollPacerTest, AHundredThousandWorkersPollAtTheWantedRate) {
  constexpr uint64_t kRate = 1000;
  constexpr int kWorkers = 100'000;
  PollPacer pacer(kRate);
  std::mt19937_64 random(1);
  const std::chrono::steady_clock::time_point start{std::chrono::hours(1)};
  std::multiset<std::chrono::steady_clock::time_point> polls;
  for (int i = 0; i < kWorkers; ++i) polls.insert(start);  // all at once
  std::map<int64_t, uint64_t> by_second;
  const auto end = start + std::chrono::minutes(10);
  while (*polls.begin() < end) {
    const auto now = *polls.begin();
    polls.erase(polls.begin());
    ++by_second[std::chrono::floor<seconds>(now - start).count()];
    const RetryWindow window = pacer.Next(now);
    ASSERT_LE(window.min, window.max);
    std::uniform_int_distribution<int64_t> wait(window.min.count(), window.max.count());
    polls.insert(now + milliseconds(wait(random)));
  }
  uint64_t most = 0;
  uint64_t all = 0;
  for (const auto& [second, count] : by_second) {
    if (second < 200) continue;  // until the crowd of the start has come back twice
    most = std::max(most, count);
    all += count;
  }
  const uint64_t mean = all / 400;
  EXPECT_LE(most, 2 * kRate);
  EXPECT_LE(mean, kRate);
  EXPECT_GE(mean, kRate * 8 / 10);
}

TEST(PollPacerTest, FewWorkersWaitForTheLeastDelay) {
  PollPacer pacer(1000);
  std::chrono::steady_clock::time_point now{std::chrono::hours(1)};
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(pacer.Next(now).min, PollPacer::kDelayMin);
    now += milliseconds(10);
  }
}

TEST(PollPacersTest, ATenantIsForgottenWhenItsPacerIsAsANewOne) {
  PollPacers pacers(1);
  const std::chrono::steady_clock::time_point start{std::chrono::hours(1)};
  for (int i = 0; i < 10; ++i) pacers.Next("busy", start);
  pacers.Next("single", start);
  pacers.Forget(start);
  EXPECT_EQ(pacers.tenants(), 2u);
  const auto later = start + seconds(2);
  pacers.Forget(later);
  EXPECT_EQ(pacers.tenants(), 1u) << "the slots of one of them are over";
  EXPECT_EQ(pacers.Next("single", later).min, PollPacer::kDelayMin);
  EXPECT_GT(pacers.Next("busy", later).min, seconds(5)) << "its slots are kept";
  pacers.Forget(start + seconds(20));
  EXPECT_EQ(pacers.tenants(), 0u);
}

}  // namespace
}  // namespace sparseagg
