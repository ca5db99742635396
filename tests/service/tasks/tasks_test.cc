#include "service/tasks/tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/service/tasks/task_bench.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::TaskBench;

constexpr milliseconds kLease = kTaskLeaseDefault;

class TasksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(bench_.Start().ok());
    bench_.OpenRound("rounds/r");
  }

  TaskBench bench_;
};

std::vector<std::string> NamesOf(const std::vector<TaskSnapshot>& tasks) {
  std::vector<std::string> names;
  for (const TaskSnapshot& task : tasks) names.push_back(task.name);
  return names;
}

TEST_F(TasksTest, ATaskIsAcquiredAndCompletedWithTheReceipt) {
  TaskGroupSpec spec;
  spec.payload = "lr=0.1";
  ASSERT_TRUE(bench_.Create("g", 2, "rounds/r", spec).ok());
  const TaskSnapshot task = bench_.Take("worker-1");
  EXPECT_EQ(task.name, "taskgroups/g/tasks/1");
  EXPECT_EQ(task.contributor, "g/1");
  EXPECT_EQ(task.round, "rounds/r");
  EXPECT_EQ(*task.payload, "lr=0.1");
  EXPECT_EQ(task.state, TaskState::kLeased);
  EXPECT_EQ(task.lease->time_left, kLease);
  EXPECT_EQ(task.worker, "worker-1");
  EXPECT_EQ(task.attempts, 1u);

  const Receipt receipt = bench_.Submit("rounds/r", task.contributor).value();
  const auto done = bench_.Complete(task, receipt);
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->state, TaskState::kCompleted);
  EXPECT_TRUE(bench_.Complete(task, receipt).ok()) << "a repeated call succeeds";

  const TaskGroupSnapshot group = bench_.Group("taskgroups/g");
  EXPECT_EQ(group.completed, 1u);
  EXPECT_EQ(group.available, 1u);
  EXPECT_EQ(group.leases, 1u);
  EXPECT_EQ(group.revision, 2u);
  EXPECT_FALSE(group.finished());
}

TEST_F(TasksTest, TasksAreHandedOutInTheOrderOfTheirCreation) {
  bench_.OpenRound("rounds/s");
  ASSERT_TRUE(bench_.Create("z", 2, "rounds/r").ok());
  ASSERT_TRUE(bench_.Create("a", 2, "rounds/s").ok());
  EXPECT_THAT(NamesOf(bench_.Acquire("w", 3)->tasks),
              ElementsAre("taskgroups/z/tasks/1", "taskgroups/z/tasks/2", "taskgroups/a/tasks/1"));
}

TEST_F(TasksTest, CompletingNeedsTheReceiptThatTheRoundGave) {
  ASSERT_TRUE(bench_.Create("g", 1).ok());
  const TaskSnapshot task = bench_.Take("w");
  const Receipt forged{.round = "rounds/r", .contributor = "g/1", .update_id = "u"};
  EXPECT_EQ(ErrorReason(bench_.Complete(task, forged).status()), "UPDATE_NOT_COUNTED");
  const Receipt receipt = bench_.Submit("rounds/r", "g/1").value();
  for (const auto& [member, value] :
       {std::pair{&Receipt::round, "rounds/s"}, std::pair{&Receipt::contributor, "g/2"},
        std::pair{&Receipt::update_id, "v"}, std::pair{&Receipt::digest, "x"}}) {
    Receipt other = receipt;
    other.*member = value;
    EXPECT_EQ(ErrorReason(bench_.Complete(task, other).status()), "RECEIPT_MISMATCH") << value;
  }
  EXPECT_EQ(bench_.Get(task.name).state, TaskState::kLeased) << "a refusal changes nothing";
  EXPECT_TRUE(bench_.Complete(task, receipt).ok());
}

TEST_F(TasksTest, AnOldTokenIsFencedForEveryCall) {
  ASSERT_TRUE(bench_.Create("g", 1).ok());
  const TaskSnapshot old = bench_.Take("dead");
  bench_.Pass(kLease);
  // The lease has ended, and nobody else has the task yet.
  EXPECT_EQ(ErrorReason(bench_.Renew(old)), "TASK_FENCED");
  const TaskSnapshot task = bench_.Take("alive");
  EXPECT_EQ(task.name, old.name);
  EXPECT_GT(task.lease->token, old.lease->token);
  EXPECT_EQ(task.attempts, 2u);
  const Receipt receipt = bench_.Submit("rounds/r", "g/1").value();
  EXPECT_EQ(ErrorReason(bench_.Renew(old)), "TASK_FENCED");
  EXPECT_EQ(ErrorReason(bench_.Fail(old, {.retryable = true}).status()), "TASK_FENCED");
  const absl::Status fenced = bench_.Complete(old, receipt).status();
  EXPECT_EQ(ErrorReason(fenced), "TASK_FENCED");
  EXPECT_EQ(ErrorMetadata(fenced).at("state"), "LEASED");
  EXPECT_EQ(bench_.Get(task.name).worker, "alive");
  EXPECT_TRUE(bench_.Complete(task, receipt).ok());
  EXPECT_EQ(ErrorReason(bench_.Complete(old, receipt).status()), "TASK_FENCED");
  EXPECT_EQ(bench_.tasks().Stats().fenced, 5u);
}

TEST_F(TasksTest, AHeartbeatLengthensALeaseAndRevivesNone) {
  ASSERT_TRUE(bench_.Create("g", 1).ok());
  const TaskSnapshot task = bench_.Take("w");
  for (int i = 0; i < 5; ++i) {
    bench_.Pass(kLease - milliseconds(1));
    EXPECT_TRUE(bench_.Renew(task).ok());
  }
  EXPECT_EQ(bench_.Get(task.name).lease->time_left, kLease);
  bench_.Pass(kLease);
  EXPECT_EQ(ErrorReason(bench_.Renew(task)), "TASK_FENCED");
  EXPECT_EQ(bench_.Get(task.name).state, TaskState::kAvailable);
  EXPECT_THAT(bench_.Get(task.name).last_failure, HasSubstr("\"w\""));
}

TEST_F(TasksTest, AnUpdateThatWasCountedBeforeItsWorkerDiedCompletesTheTask) {
  ASSERT_TRUE(bench_.Create("g", 1).ok());
  const TaskSnapshot task = bench_.Take("dies");
  ASSERT_TRUE(bench_.Submit("rounds/r", "g/1").ok());
  bench_.Pass(kLease);
  EXPECT_THAT(bench_.Acquire("other")->tasks, SizeIs(0));
  EXPECT_EQ(bench_.Get(task.name).state, TaskState::kCompleted);
  EXPECT_EQ(bench_.tasks().Stats().completed_by_update, 1u);
}

TEST_F(TasksTest, AnUpdateThatArrivesAfterTheLeaseCompletesTheTaskBeforeItIsHandedOut) {
  ASSERT_TRUE(bench_.Create("g", 1).ok());
  const TaskSnapshot task = bench_.Take("slow");
  bench_.Pass(kLease);
  bench_.tasks().Tick();
  EXPECT_EQ(bench_.Get(task.name).state, TaskState::kAvailable);
  ASSERT_TRUE(bench_.Submit("rounds/r", "g/1").ok());
  EXPECT_THAT(bench_.Acquire("other")->tasks, SizeIs(0));
  EXPECT_EQ(bench_.Get(task.name).state, TaskState::kCompleted);
}

TEST_F(TasksTest, ATaskFailsAfterItsAttemptsAndAHandedBackLeaseIsNone) {
  TaskGroupSpec spec;
  spec.attempts_max = 2;
  ASSERT_TRUE(bench_.Create("g", 1, "rounds/r", spec).ok());
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(bench_.Fail(bench_.Take("w"), {.handed_back = true}).ok());
  }
  const TaskSnapshot first = bench_.Take("w");
  const auto failed = bench_.Fail(first, {.reason = "out of memory", .retryable = true});
  EXPECT_EQ(failed->state, TaskState::kAvailable);
  EXPECT_EQ(failed->last_failure, "out of memory");
  EXPECT_TRUE(bench_.Fail(first, {.retryable = true}).ok()) << "a repeated call succeeds";
  EXPECT_EQ(bench_.Get(first.name).attempts, 1u);
  bench_.Take("w");
  bench_.Pass(kLease);
  EXPECT_THAT(bench_.Acquire("w")->tasks, SizeIs(0));
  const TaskSnapshot task = bench_.Get("taskgroups/g/tasks/1");
  EXPECT_EQ(task.state, TaskState::kFailed);
  EXPECT_EQ(task.end, TaskEnd::kAttemptsExhausted);
  EXPECT_EQ(task.attempts, 2u);
  EXPECT_EQ(task.leases, 7u);
}

TEST_F(TasksTest, AFailureThatIsNotRetryableEndsTheTask) {
  ASSERT_TRUE(bench_.Create("g", 1).ok());
  const auto failed = bench_.Fail(bench_.Take("w"), {.reason = "no such model"});
  EXPECT_EQ(failed->state, TaskState::kFailed);
  EXPECT_EQ(failed->end, TaskEnd::kNotRetryable);
  EXPECT_TRUE(bench_.Group("taskgroups/g").finished());
}

TEST_F(TasksTest, TheRoundsEndCancelsWhatIsLeftAndCompletesWhatWasCounted) {
  bench_.OpenRound("rounds/goal", Durability::kMemory, 3);
  TaskGroupSpec spec;
  spec.group_id = "g";
  spec.pool = "pool";
  spec.round = "rounds/goal";
  spec.percent_of_goal = 130;
  ASSERT_TRUE(bench_.tasks().Create({.groups = {spec}}).ok());
  EXPECT_EQ(bench_.Group("taskgroups/g").tasks, 4u);  // 3.9, rounded up
  const std::vector<TaskSnapshot> tasks = bench_.Acquire("w", 4)->tasks;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(bench_.Submit("rounds/goal", tasks[i].contributor).ok());
  bench_.EndRound("rounds/goal", RoundState::kSealed);
  EXPECT_EQ(ErrorReason(bench_.Renew(tasks[3])), "TASK_FENCED");
  EXPECT_EQ(bench_.Get(tasks[3].name).end, TaskEnd::kRoundClosed);
  const TaskGroupSnapshot group = bench_.Group("taskgroups/g");
  EXPECT_EQ(group.completed, 3u);
  EXPECT_EQ(group.cancelled, 1u);
  EXPECT_TRUE(group.finished());
  bench_.EndRound("rounds/goal", RoundState::kRetired);
  bench_.tasks().Tick();
  EXPECT_EQ(ErrorReason(bench_.tasks().GetGroup("default", "taskgroups/g").status()),
            "TASK_GROUP_NOT_FOUND");
  EXPECT_EQ(bench_.tasks().Stats().groups, 0u);
}

TEST_F(TasksTest, ADeadlineEndsTheTasksThatAreLeft) {
  TaskGroupSpec spec;
  spec.open_for = seconds(100);
  spec.lease = seconds(1000);
  ASSERT_TRUE(bench_.Create("g", 3, "rounds/r", spec).ok());
  const TaskSnapshot counted = bench_.Take("w");
  const TaskSnapshot late = bench_.Take("w");
  ASSERT_TRUE(bench_.Submit("rounds/r", counted.contributor).ok());
  bench_.Pass(seconds(99));
  bench_.tasks().Tick();
  EXPECT_EQ(bench_.Group("taskgroups/g").revision, 1u);
  bench_.Pass(seconds(1));
  bench_.tasks().Tick();
  EXPECT_EQ(bench_.Get(counted.name).state, TaskState::kCompleted);
  EXPECT_EQ(bench_.Get(late.name).state, TaskState::kFailed);
  EXPECT_EQ(bench_.Get(late.name).end, TaskEnd::kDeadline);
  EXPECT_EQ(bench_.Group("taskgroups/g").failed, 2u);
}

TEST_F(TasksTest, CancelEndsTasksAndGroupsOnce) {
  ASSERT_TRUE(bench_.Create("g", 3).ok());
  ASSERT_TRUE(bench_.Create("h", 2).ok());
  const TaskSnapshot held = bench_.Take("w");
  const auto cancel = [&](const std::vector<std::string>& names) {
    return bench_.tasks().Cancel("default", names);
  };
  EXPECT_EQ(ErrorReason(cancel({"taskgroups/g", "taskgroups/x"}).status()), "TASK_GROUP_NOT_FOUND");
  EXPECT_EQ(bench_.Group("taskgroups/g").revision, 1u) << "an unknown name changes nothing";
  EXPECT_EQ(cancel({"taskgroups/g/tasks/2"}).value(), 1u);
  EXPECT_EQ(cancel({"taskgroups/g", "taskgroups/h/tasks/1"}).value(), 3u);
  EXPECT_EQ(cancel({"taskgroups/g"}).value(), 0u);
  EXPECT_EQ(bench_.Get(held.name).end, TaskEnd::kRequested);
  EXPECT_EQ(ErrorReason(bench_.Renew(held)), "TASK_FENCED");
  EXPECT_THAT(NamesOf(bench_.Acquire("w", 10)->tasks), ElementsAre("taskgroups/h/tasks/2"));
}

TEST_F(TasksTest, ACreationIsAllOrNothing) {
  TaskGroupSpec good;
  good.group_id = "good";
  good.pool = "pool";
  good.round = "rounds/r";
  good.count = 1;
  TaskGroupSpec bad = good;
  bad.group_id = "bad";
  bad.round = "rounds/none";
  EXPECT_EQ(ErrorReason(bench_.tasks().Create({.groups = {good, bad}}).status()),
            "ROUND_NOT_FOUND");
  EXPECT_THAT(bench_.Acquire("w")->tasks, SizeIs(0));
  bad.round = "rounds/r";
  bad.percent_of_goal = 130;
  EXPECT_EQ(ErrorReason(bench_.tasks().Create({.groups = {good, bad}}).status()),
            "INVALID_TASK_GROUP");
  bad.count.reset();
  const absl::Status no_goal = bench_.tasks().Create({.groups = {good, bad}}).status();
  EXPECT_THAT(no_goal.message(), HasSubstr("goal_contributors"));
  EXPECT_TRUE(bench_.Create("good", 1).ok());
  EXPECT_EQ(ErrorReason(bench_.Create("good", 1)), "TASK_GROUP_EXISTS");
}

TEST_F(TasksTest, BadArgumentsAreNamed) {
  TaskGroupSpec spec;
  spec.lease = milliseconds(10);
  EXPECT_THAT(bench_.Create("g", 1, "rounds/r", spec).message(), HasSubstr("10 ms"));
  EXPECT_EQ(ErrorReason(bench_.Create("G", 1)), "INVALID_TASK_GROUP");
  EXPECT_EQ(ErrorReason(bench_.Create("g", 0)), "INVALID_TASK_GROUP");
  EXPECT_EQ(ErrorReason(bench_.Create("g", 1, "r")), "INVALID_ROUND_NAME");
  EXPECT_EQ(ErrorReason(bench_.Acquire("").status()), "INVALID_WORKER");
  EXPECT_EQ(ErrorReason(bench_.Acquire("w", 101).status()), "INVALID_TASK_REQUEST");
  for (const char* name :
       {"g", "taskgroups/", "taskgroups/g/tasks/0", "taskgroups/g/tasks/01", "taskgroups/g/tasks/",
        "taskgroups/g/x/1", "taskgroups/g/tasks/1/2", "taskgroups/g/tasks/99999999999"}) {
    EXPECT_EQ(ErrorReason(bench_.tasks().Get("default", {}, name).status()), "INVALID_TASK_NAME")
        << name;
  }
  EXPECT_EQ(ErrorReason(bench_.tasks().Get("default", {}, "taskgroups/g/tasks/7").status()),
            "TASK_NOT_FOUND");
}

TEST_F(TasksTest, CapabilitiesDecideWhoGetsATask) {
  TaskGroupSpec spec;
  spec.required_capabilities = {"gpu"};
  ASSERT_TRUE(bench_.Create("needs-gpu", 1, "rounds/r", spec).ok());
  ASSERT_TRUE(bench_.Create("any", 1).ok());
  EXPECT_THAT(NamesOf(bench_.Acquire("w", 5)->tasks), ElementsAre("taskgroups/any/tasks/1"));
  const auto gpu = bench_.tasks().Acquire(
      "default", {.worker = "w", .pools = {"other", "pool"}, .capabilities = {"x", "gpu"}});
  EXPECT_THAT(NamesOf(gpu->tasks), ElementsAre("taskgroups/needs-gpu/tasks/1"));
}

TEST_F(TasksTest, AWorkerSeesItsOwnTasksOnly) {
  ASSERT_TRUE(bench_.Create("g", 3).ok());
  const TaskSnapshot mine = bench_.Take("phone-1/app");
  const TaskSnapshot theirs = bench_.Take("phone-10");
  const TaskViewer phone{.worker = "phone-1"};
  Tasks& tasks = bench_.tasks();
  EXPECT_TRUE(tasks.Get("default", phone, mine.name).ok());
  EXPECT_EQ(ErrorReason(tasks.Get("default", phone, theirs.name).status()), "TASK_NOT_FOUND");
  EXPECT_EQ(ErrorReason(tasks.Get("default", phone, "taskgroups/g/tasks/3").status()),
            "TASK_NOT_FOUND");
  EXPECT_THAT(NamesOf(tasks.List("default", phone, {})->tasks), ElementsAre(mine.name));
  const TaskLeaseKey lease{theirs.name, theirs.lease->token};
  EXPECT_EQ(ErrorReason(tasks.Renew("default", phone, {&lease, 1})->at(0).status()),
            "TASK_NOT_FOUND");
  EXPECT_EQ(ErrorReason(tasks.Fail("default", phone, lease, {}).status()), "TASK_NOT_FOUND");
  EXPECT_TRUE(tasks.MaySubmit("default", "phone-1", "rounds/r", mine.contributor));
  EXPECT_FALSE(tasks.MaySubmit("default", "phone-1", "rounds/r", theirs.contributor));
  EXPECT_FALSE(tasks.MaySubmit("acme", "phone-1", "rounds/r", mine.contributor));
  bench_.Pass(kLease);
  EXPECT_FALSE(tasks.MaySubmit("default", "phone-1", "rounds/r", mine.contributor));
}

TEST_F(TasksTest, TenantsDoNotSeeEachOther) {
  bench_.OpenRound("tenants/acme/rounds/r");
  ASSERT_TRUE(bench_.Create("g", 1).ok());
  bench_.tenant = "acme";
  EXPECT_THAT(bench_.Acquire("w")->tasks, SizeIs(0));
  EXPECT_EQ(ErrorReason(bench_.tasks().Get("acme", {}, "taskgroups/g/tasks/1").status()),
            "TASK_NOT_FOUND");
  ASSERT_TRUE(bench_.Create("g", 2).ok());
  EXPECT_THAT(bench_.tasks().List("acme", {}, {})->tasks, SizeIs(2));
  EXPECT_THAT(bench_.tasks().List("default", {}, {})->tasks, SizeIs(1));
}

TEST_F(TasksTest, AWatcherLearnsOfEveryTaskThatEndsAndOfTheGroupsEnd) {
  ASSERT_TRUE(bench_.Create("g", 2).ok());
  std::vector<uint64_t> revisions;
  bool forgotten = false;
  auto handle = bench_.tasks().Watch("default", "taskgroups/g", [&](const auto& group) {
    group.has_value() ? revisions.push_back(group->revision) : void(forgotten = true);
  });
  ASSERT_TRUE(handle.ok());
  bench_.Take("w");
  EXPECT_THAT(revisions, SizeIs(0)) << "a lease is no change";
  EXPECT_TRUE(bench_.tasks().Cancel("default", {"taskgroups/g/tasks/1"}).ok());
  bench_.EndRound("rounds/r", RoundState::kSealed);
  bench_.tasks().Tick();
  EXPECT_THAT(revisions, ElementsAre(2, 3));
  handle->reset();
  bench_.EndRound("rounds/r", RoundState::kRetired);
  bench_.tasks().Tick();
  EXPECT_FALSE(forgotten) << "the handle was released";
}

// --- On a disk ---

class DurableTasksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(bench_.Start().ok());
    bench_.OpenRound("rounds/r", Durability::kDurable);
  }

  testing::TemporaryFolder folder_;
  absl::Status disk_;  // what the disk answers to rows that are written
  TaskBench bench_{folder_.path(), FailpointHook([this](Failpoint point) {
                     return point == Failpoint::kRowsWritten ? disk_ : absl::OkStatus();
                   })};
};

TEST_F(DurableTasksTest, TasksAndLeasesSurviveARestartWithTheTimeThatWasLeft) {
  TaskGroupSpec spec;
  spec.payload = std::string("line\n\0binary\xff", 13);
  ASSERT_TRUE(bench_.Create("g", 3, "rounds/r", spec).ok());
  const TaskSnapshot held = bench_.Take("w");
  const TaskSnapshot done = bench_.Take("w");
  ASSERT_TRUE(bench_.Complete(done, bench_.Submit("rounds/r", done.contributor).value()).ok());
  bench_.Pass(seconds(20));
  ASSERT_TRUE(bench_.Renew(bench_.Take("v")).ok());  // stores the clock
  bench_.Kill();
  bench_.Pass(std::chrono::hours(5));
  ASSERT_TRUE(bench_.Start().ok());

  const TaskSnapshot again = bench_.Get(held.name);
  EXPECT_EQ(again.state, TaskState::kLeased);
  EXPECT_EQ(again.lease->token, held.lease->token);
  EXPECT_EQ(again.lease->time_left, kLease - seconds(20)) << "time stood still";
  EXPECT_EQ(*again.payload, spec.payload);
  EXPECT_EQ(bench_.Get(done.name).state, TaskState::kCompleted);
  EXPECT_EQ(bench_.Group("taskgroups/g").leases, 3u);
  EXPECT_TRUE(bench_.Renew(held).ok());
  bench_.Pass(kLease);
  EXPECT_GT(bench_.Take("other").lease->token, held.lease->token);
}

TEST_F(DurableTasksTest, ACrashLengthensALeaseByFiveSecondsAtMost) {
  ASSERT_TRUE(bench_.Create("g", 1).ok());
  const TaskSnapshot task = bench_.Take("dead");
  milliseconds held{0};
  while (bench_.Get(task.name).state == TaskState::kLeased) {
    ASSERT_LT(held, 2 * kLease);
    for (int i = 0; i < 70; ++i) {  // a life of 7 seconds
      bench_.Pass(milliseconds(100));
      held += milliseconds(100);
      bench_.tasks().Tick();
    }
    ASSERT_TRUE(bench_.Start().ok());
  }
  EXPECT_LE(held, kLease + (kLease / seconds(5)) * seconds(2) + seconds(7));
}

TEST_F(DurableTasksTest, ADeadlineGoesOnWhileTheServerIsDown) {
  TaskGroupSpec spec;
  spec.open_for = seconds(100);
  ASSERT_TRUE(bench_.Create("g", 1, "rounds/r", spec).ok());
  bench_.Kill();
  bench_.Pass(seconds(100));
  ASSERT_TRUE(bench_.Start().ok());
  EXPECT_EQ(bench_.Get("taskgroups/g/tasks/1").end, TaskEnd::kDeadline);
}

TEST_F(DurableTasksTest, WhatHappenedToARoundWhileNobodyLookedIsFoundAtTheStart) {
  bench_.OpenRound("rounds/s", Durability::kDurable);
  bench_.OpenRound("rounds/m");
  ASSERT_TRUE(bench_.Create("g", 2).ok());
  ASSERT_TRUE(bench_.Create("h", 2, "rounds/s").ok());
  ASSERT_TRUE(bench_.Create("m", 2, "rounds/m").ok());
  const TaskSnapshot task = bench_.Take("w");
  ASSERT_TRUE(bench_.Submit("rounds/r", task.contributor).ok());
  bench_.Kill();
  bench_.rounds["rounds/r"].state = RoundState::kSealed;
  bench_.rounds.erase("rounds/s");
  ASSERT_TRUE(bench_.Start().ok());
  EXPECT_EQ(bench_.Get(task.name).state, TaskState::kCompleted);
  EXPECT_EQ(bench_.Get("taskgroups/g/tasks/2").end, TaskEnd::kRoundClosed);
  EXPECT_EQ(bench_.tasks().Stats().groups, 1u) << "of a deleted round, and in memory: forgotten";
  ASSERT_TRUE(bench_.Start().ok());
  EXPECT_EQ(bench_.tasks().Stats().groups, 1u);
}

TEST_F(DurableTasksTest, WhatCannotBeStoredHasNotHappened) {
  ASSERT_TRUE(bench_.Create("g", 2).ok());
  const TaskSnapshot task = bench_.Take("w");
  const TaskStats before = bench_.tasks().Stats();
  bench_.Pass(seconds(1));
  disk_ = absl::ResourceExhaustedError("the disk is full");
  EXPECT_FALSE(bench_.Create("h", 2).ok());
  EXPECT_FALSE(bench_.Acquire("w").ok());
  EXPECT_FALSE(bench_.Renew(task).ok());
  EXPECT_FALSE(bench_.Fail(task, {}).ok());
  EXPECT_FALSE(bench_.tasks().Cancel("default", {"taskgroups/g"}).ok());
  bench_.Pass(kLease);
  bench_.tasks().Tick();
  EXPECT_EQ(bench_.Group("taskgroups/g").leased, 1u);
  const TaskStats after = bench_.tasks().Stats();
  EXPECT_EQ(after.acquired, before.acquired);
  EXPECT_EQ(after.leases_ended, before.leases_ended);
  EXPECT_EQ(after.groups, 1u);
  disk_ = absl::OkStatus();
  EXPECT_EQ(ErrorReason(bench_.Renew(task)), "TASK_FENCED");
  EXPECT_EQ(bench_.Group("taskgroups/g").available, 2u);
  EXPECT_THAT(bench_.Acquire("w", 5)->tasks, SizeIs(2));
}

}  // namespace
}  // namespace sparseagg
