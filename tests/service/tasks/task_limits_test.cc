// What tasks may take of memory and of the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "proto/limits.h"
#include "tests/service/tasks/task_bench.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::TaskBench;

constexpr milliseconds kLease = kTaskLeaseDefault;

class TaskLimitsTest : public ::testing::Test {
 protected:
  void Start() {
    ASSERT_TRUE(bench_.Start().ok());
    bench_.OpenRound("rounds/r");
  }
  uint64_t bytes() { return bench_.tasks().Stats().payload_bytes; }

  TaskBench bench_;
};

TEST_F(TaskLimitsTest, LimitsAreCheckedBeforeAnythingIsCreated) {
  bench_.limits.tasks_max = 10;
  bench_.limits.tenant_tasks_max = 6;
  bench_.limits.task_bytes_max = 5000;
  Start();
  bench_.OpenRound("tenants/acme/rounds/r");
  ASSERT_TRUE(bench_.Create("g", 6).ok());
  const absl::Status full = bench_.Create("h", 1);
  EXPECT_EQ(ErrorReason(full), "TENANT_TASKS_FULL");
  EXPECT_GT(RetryAfterMs(full), 0u);
  EXPECT_THAT(full.message(), HasSubstr("tenant-tasks-max = 6"));
  bench_.tenant = "acme";
  EXPECT_EQ(ErrorReason(bench_.Create("g", 5)), "TASKS_FULL");
  TaskGroupSpec spec;
  spec.payload = std::string(900, 'x');
  const absl::Status too_many_bytes = bench_.Create("g", 1, "rounds/r", spec);
  EXPECT_EQ(ErrorReason(too_many_bytes), "TASK_BYTES_FULL");
  EXPECT_THAT(too_many_bytes.message(), HasSubstr("task-bytes-max = 5000"));
  EXPECT_THAT(too_many_bytes.message(), HasSubstr("2 KiB for each group"));
  spec.payload = std::string(700, 'x');
  EXPECT_TRUE(bench_.Create("g", 1, "rounds/r", spec).ok());
}

TEST_F(TaskLimitsTest, WhatIsKeptCountsUntilItIsForgotten) {
  Start();
  TaskGroupSpec spec;
  spec.payload = std::string(1000, 'x');
  ASSERT_TRUE(bench_.Create("g", 2, "rounds/r", spec).ok());
  const uint64_t created = bytes();
  EXPECT_GE(created, 1000u + 2048u);
  EXPECT_LT(created, 1000u + 2048u + 200u);
  const TaskSnapshot task = bench_.Take(std::string(100, 'w'));
  EXPECT_EQ(bytes(), created + 100);
  ASSERT_TRUE(bench_.Fail(task, {.reason = std::string(500, 'f'), .retryable = true}).ok());
  EXPECT_EQ(bytes(), created + 600);
  bench_.Take("w");  // the other task
  ASSERT_EQ(bench_.Take("v").name, task.name);
  EXPECT_EQ(bytes(), created + 502);
  bench_.EndRound("rounds/r", RoundState::kSealed);
  bench_.EndRound("rounds/r", RoundState::kRetired);
  bench_.tasks().Tick();
  EXPECT_EQ(bytes(), 0u);
}

TEST_F(TaskLimitsTest, TextsOfFailuresTakeHalfOfTheBytesAtMost) {
  bench_.limits.task_bytes_max = 100'000;
  Start();
  ASSERT_TRUE(bench_.Create("g", 200).ok());
  const std::string reason(kTaskFailureBytesMax, 'f');
  for (int i = 0; i < 200; ++i) {
    const auto failed = bench_.Fail(bench_.Take("w"), {.reason = reason, .retryable = true});
    ASSERT_TRUE(failed.ok()) << "a failure is taken without room for its text, too";
    EXPECT_EQ(failed->last_failure, i < 40 ? reason : i > 60 ? "(not kept)" : failed->last_failure);
  }
  EXPECT_LE(bytes(), 51'000u);
  EXPECT_TRUE(bench_.Create("h", 1).ok()) << "owners have the other half";
}

TEST_F(TaskLimitsTest, GroupsAreBoundedByTheBytesThatTheyTake) {
  bench_.limits.task_bytes_max = 1 << 20;
  Start();
  int groups = 0;
  while (bench_.Create(absl::StrCat("g", groups), 1).ok()) ++groups;
  EXPECT_GT(groups, 400);
  EXPECT_LT(groups, 512);
}

// --- The disk ---

class TaskDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(bench_.Start().ok());
    bench_.OpenRound("rounds/r", Durability::kDurable);
    ASSERT_TRUE(bench_.Create("g", 2).ok());
  }
  absl::StatusOr<AcquiredTasks> AcquireFrom(const std::string& pool) {
    return bench_.tasks().Acquire("default", {.worker = "w", .pools = {pool}});
  }

  testing::TemporaryFolder folder_;
  absl::Status disk_;  // what the disk answers to rows that are written
  TaskBench bench_{folder_.path(), FailpointHook([this](Failpoint point) {
                     return point == Failpoint::kRowsWritten ? disk_ : absl::OkStatus();
                   })};
};

TEST_F(TaskDiskTest, APollThatFindsNothingIsAnsweredOnANearlyFullDisk) {
  const TaskSnapshot task = bench_.Take("dead");
  bench_.free_bytes_min = uint64_t{1} << 60;
  ASSERT_TRUE(bench_.Start().ok());
  bench_.Pass(kLease);  // the end of the lease is to be stored
  const auto poll = AcquireFrom("other");
  ASSERT_TRUE(poll.ok()) << poll.status();
  EXPECT_THAT(poll->tasks, SizeIs(0));
  EXPECT_GE(poll->retry.min, PollPacer::kDelayMin);
  EXPECT_EQ(bench_.Get(task.name).state, TaskState::kAvailable);
  EXPECT_EQ(ErrorReason(AcquireFrom("pool").status()), "STORE_FULL");
  EXPECT_EQ(ErrorReason(bench_.Create("h", 1)), "STORE_FULL");
}

TEST_F(TaskDiskTest, WhatIsOnlyReadIsAnsweredOnAFullDisk) {
  const TaskSnapshot task = bench_.Take("dead");
  bench_.Pass(kLease);
  disk_ = absl::ResourceExhaustedError("the disk is full");
  const auto seen = bench_.tasks().Get("default", {}, task.name);
  ASSERT_TRUE(seen.ok()) << seen.status();
  // It is as it was stored.
  EXPECT_EQ(seen->state, TaskState::kLeased);
  EXPECT_EQ(seen->lease->time_left, milliseconds(0));
  const auto page = bench_.tasks().List("default", {}, {});
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(page->tasks, SizeIs(2));
  const auto poll = AcquireFrom("other");
  ASSERT_TRUE(poll.ok()) << poll.status();
  EXPECT_GE(poll->retry.min, PollPacer::kDelayMin);
  EXPECT_FALSE(AcquireFrom("pool").ok());
  EXPECT_FALSE(bench_.Renew(task).ok());
  EXPECT_FALSE(bench_.tasks().MaySubmit("default", "dead", "rounds/r", task.contributor));
  disk_ = absl::OkStatus();
  EXPECT_EQ(bench_.Get(task.name).state, TaskState::kAvailable);
}

TEST_F(TaskDiskTest, TicksOnAFullDiskHandNoTaskOutTwice) {
  bench_.Take("dead");
  bench_.Pass(kLease);
  disk_ = absl::ResourceExhaustedError("the disk is full");
  for (int i = 0; i < 100; ++i) bench_.tasks().Tick();
  disk_ = absl::OkStatus();
  EXPECT_THAT(bench_.Acquire("w", 5)->tasks, SizeIs(2)) << "each task once";
  EXPECT_THAT(bench_.Acquire("w", 5)->tasks, SizeIs(0));
}

TEST_F(TaskDiskTest, TheEndOfARoundWaitsForTheDisk) {
  const TaskSnapshot task = bench_.Take("w");
  disk_ = absl::ResourceExhaustedError("the disk is full");
  bench_.EndRound("rounds/r", RoundState::kSealed);
  EXPECT_EQ(bench_.Get(task.name).state, TaskState::kLeased);
  EXPECT_FALSE(bench_.Renew(task).ok());
  EXPECT_EQ(bench_.Group("taskgroups/g").revision, 1u);
  disk_ = absl::OkStatus();
  EXPECT_EQ(bench_.Get(task.name).end, TaskEnd::kRoundClosed);
  EXPECT_EQ(bench_.Group("taskgroups/g").cancelled, 2u);
  EXPECT_EQ(bench_.tasks().Stats().cancelled, 2u);
}

}  // namespace
}  // namespace sparseagg
