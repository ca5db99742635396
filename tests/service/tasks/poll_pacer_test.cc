#include "service/tasks/poll_pacer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>

namespace sparseagg {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string NameOf(int worker) { return std::to_string(worker); }

// The poll of each worker is at a time drawn from its window, and nobody is told how many they are.
TEST(PollPacerTest, AHundredThousandWorkersPollAtTheWantedRate) {
  constexpr uint64_t kRate = 1000;
  constexpr int kWorkers = 100'000;
  PollPacer pacer(kRate);
  std::mt19937_64 random(1);
  const std::chrono::steady_clock::time_point start{std::chrono::hours(1)};
  std::set<std::pair<std::chrono::steady_clock::time_point, std::string>> polls;
  for (int i = 0; i < kWorkers; ++i) polls.emplace(start, NameOf(i));  // all at once
  std::map<int64_t, uint64_t> by_second;
  const auto end = start + std::chrono::minutes(10);
  while (polls.begin()->first < end) {
    const auto [now, worker] = *polls.begin();
    polls.erase(polls.begin());
    ++by_second[std::chrono::floor<seconds>(now - start).count()];
    const RetryWindow window = pacer.Next(worker, now);
    ASSERT_LE(window.min, window.max);
    std::uniform_int_distribution<int64_t> wait(window.min.count(), window.max.count());
    polls.emplace(now + milliseconds(wait(random)), worker);
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
    EXPECT_EQ(pacer.Next(NameOf(i), now).min, PollPacer::kDelayMin);
    now += milliseconds(10);
  }
}

TEST(PollPacerTest, AWorkerThatIgnoresItsSlotMakesNobodyElseWait) {
  PollPacer pacer(10);
  const std::chrono::steady_clock::time_point start{std::chrono::hours(1)};
  auto now = start;
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_GE(pacer.Next("bad", now).min, PollPacer::kDelayMin);
    now += milliseconds(1);
  }
  EXPECT_EQ(pacer.Next("bad", now).min, PollPacer::kDelayMax) << "it waits for itself";
  EXPECT_EQ(pacer.Next("good", now).min, PollPacer::kDelayMin);
  EXPECT_EQ(pacer.Next("other", now).min, PollPacer::kDelayMin + milliseconds(100));
}

TEST(PollPacerTest, WorkersOfOneNameAreSpread) {
  constexpr int kWorkers = 1000;
  PollPacer pacer(100);
  const std::chrono::steady_clock::time_point start{std::chrono::hours(1)};
  std::multiset<std::chrono::steady_clock::time_point> polls;
  for (int i = 0; i < kWorkers; ++i) polls.insert(start);
  uint64_t count = 0;
  while (*polls.begin() < start + seconds(100)) {
    const auto now = *polls.begin();
    polls.erase(polls.begin());
    count += now >= start + seconds(20) ? 1 : 0;
    polls.insert(now + pacer.Next("all of them", now).min);
  }
  EXPECT_LE(count, 80 * 100 * 11 / 10);
  EXPECT_GE(count, 80 * 100 * 8 / 10);
}

TEST(PollPacerTest, SlotsThatHavePassedAreForgotten) {
  PollPacer pacer(1000);
  const std::chrono::steady_clock::time_point start{std::chrono::hours(1)};
  for (int i = 0; i < 300'000; ++i) pacer.Next(NameOf(i), start);
  EXPECT_EQ(pacer.workers(), 262'144u) << "the newest";
  pacer.ForgetPassed(start + seconds(200));
  EXPECT_EQ(pacer.workers(), 100'000u + 499) << "the slots are 1 ms apart and begin at 500 ms";
  pacer.Next("new", start + seconds(301));
  EXPECT_EQ(pacer.workers(), 1u);
}

TEST(PollPacersTest, ATenantIsForgottenWhenItsPacerIsAsANewOne) {
  PollPacers pacers(1);
  const std::chrono::steady_clock::time_point start{std::chrono::hours(1)};
  for (int i = 0; i < 10; ++i) pacers.Next("busy", NameOf(i), start);
  pacers.Next("single", "w", start);
  pacers.Forget(start);
  EXPECT_EQ(pacers.tenants(), 2u);
  const auto later = start + seconds(2);
  pacers.Forget(later);
  EXPECT_EQ(pacers.tenants(), 1u) << "the slots of one of them are over";
  EXPECT_EQ(pacers.Next("single", "w", later).min, PollPacer::kDelayMin);
  EXPECT_GT(pacers.Next("busy", "w", later).min, seconds(5)) << "its slots are kept";
  pacers.Forget(start + seconds(20));
  EXPECT_EQ(pacers.tenants(), 0u);
}

}  // namespace
}  // namespace sparseagg
