#include "service/engine/round/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <latch>
#include <shared_mutex>

#include "base/status.h"
#include "service/engine/memory/admission.h"
#include "service/engine/round/commit_gate.h"
#include "tests/support/manual_executor.h"

namespace sparseagg {
namespace {

TEST(ExecutorTest, RunsEverythingBeforeItEnds) {
  std::atomic<int> posted_by_tasks = 0;
  {
    ThreadPool executor(3);
    for (int i = 0; i < 100; ++i) {
      executor.Post([&] { executor.Post([&] { ++posted_by_tasks; }); });
    }
  }
  EXPECT_EQ(posted_by_tasks, 100);
}

TEST(StrandTest, RunsTasksOneAfterTheOtherInOrder) {
  std::vector<int> order;  // unguarded on purpose, so that ThreadSanitizer reports an overlap
  {
    ThreadPool executor(4);
    Strand strand(executor);
    for (int i = 0; i < 1000; ++i) strand.Post([&order, i] { order.push_back(i); });
    executor.WaitUntilIdle();
  }
  ASSERT_EQ(order.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(StrandTest, RunsSideBySideWithOtherStrands) {
  ThreadPool executor(2);
  Strand a(executor);
  Strand b(executor);
  // Each task waits for the other: run one after the other, they would never end.
  std::latch both(2);
  a.Post([&] { both.arrive_and_wait(); });
  b.Post([&] { both.arrive_and_wait(); });
  executor.WaitUntilIdle();
  EXPECT_TRUE(both.try_wait());
}

TEST(StrandTest, MayBeGoneBeforeItsTasksRan) {
  std::atomic<int> ran = 0;
  ThreadPool executor(1);
  {
    Strand strand(executor);
    for (int i = 0; i < 10; ++i) strand.Post([&] { ++ran; });
  }
  executor.WaitUntilIdle();
  EXPECT_EQ(ran, 10);
}

// An owner like a round, whose tasks own it and its strand.
TEST(StrandTest, ReleasesItsTasksWhenTheExecutorDropsThem) {
  struct Owner {
    explicit Owner(Executor& executor) : strand(executor) {}
    Strand strand;
  };
  testing::ManualExecutor executor;
  auto owner = std::make_shared<Owner>(executor);
  const std::weak_ptr<Owner> seen = owner;
  for (int i = 0; i < 3; ++i) owner->strand.Post([owner] {});
  executor.RunOne(0);
  executor.DropAll();
  owner->strand.Post([owner] {});  // never runs
  EXPECT_EQ(executor.queued(), 0u);
  owner.reset();
  EXPECT_TRUE(seen.expired());
}

TEST(CommitGateTest, ACutSeesNoCommitHalfDone) {
  CommitGate gate;
  int first = 0;
  int second = 0;
  std::mutex mutex;
  std::atomic<bool> stop = false;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        std::shared_lock commit(gate);
        {
          std::lock_guard lock(mutex);
          ++first;
        }
        {
          std::lock_guard lock(mutex);
          ++second;
        }
      }
    });
  }
  // Many commits do not starve the cuts: this loop ends.
  for (int i = 0; i < 1000; ++i) {
    std::unique_lock cut(gate);
    ASSERT_EQ(first, second);
  }
  stop = true;
}

TEST(AdmissionTest, GivesBackWhatAReservationHeld) {
  Admission admission(100);
  {
    auto a = admission.Reserve(60);
    ASSERT_TRUE(a.ok());
    EXPECT_EQ(ErrorReason(admission.Reserve(41).status()), "STAGING_FULL");
    Reservation part = a->Split(20);
    EXPECT_EQ(a->bytes(), 40u);
    part = Reservation();
    EXPECT_EQ(admission.bytes_in_use(), 40u);
    Reservation moved = *std::move(a);
    EXPECT_EQ(admission.bytes_in_use(), 40u);
  }
  EXPECT_EQ(admission.bytes_in_use(), 0u);
}

TEST(AdmissionTest, TellsNotNowFromNever) {
  Admission admission(100);
  const absl::Status never = admission.Reserve(101).status();
  EXPECT_EQ(ErrorReason(never), "UPDATE_TOO_LARGE");
  EXPECT_EQ(RetryAfterMs(never), 0u);
  auto all = admission.Reserve(100);
  ASSERT_TRUE(all.ok());
  EXPECT_GT(RetryAfterMs(admission.Reserve(1).status()), 0u);
}

TEST(ExecutorTest, RunsADelayedTaskNotBeforeItsTime) {
  ThreadPool executor(1);
  std::promise<std::chrono::steady_clock::time_point> ran;
  const auto start = std::chrono::steady_clock::now();
  constexpr std::chrono::milliseconds kDelay{20};
  executor.PostAfter(kDelay, [&] { ran.set_value(std::chrono::steady_clock::now()); });
  executor.WaitUntilIdle();  // does not wait for it
  EXPECT_GE(ran.get_future().get() - start, kDelay);
}

TEST(ExecutorTest, RunsDelayedTasksInTheOrderOfTheirTimes) {
  ThreadPool executor(1);
  std::vector<int> order;
  std::promise<void> last;
  executor.PostAfter(std::chrono::milliseconds(30), [&] {
    order.push_back(2);
    last.set_value();
  });
  executor.PostAfter(std::chrono::milliseconds(1), [&] { order.push_back(1); });
  last.get_future().wait();
  executor.WaitUntilIdle();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(ExecutorTest, DropsWhatIsDelayedWhenItGoes) {
  bool ran = false;
  {
    ThreadPool executor(2);
    executor.PostAfter(std::chrono::hours(1), [&] { ran = true; });
  }
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace sparseagg
