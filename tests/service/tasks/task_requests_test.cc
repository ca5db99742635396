// Calls that are repeated, early or late: with a request id, or with the token of a lease.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "service/tasks/request_memory.h"
#include "tests/service/tasks/task_bench.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TaskBench;

constexpr milliseconds kLease = kTaskLeaseDefault;

std::vector<std::string> NamesOf(const absl::StatusOr<AcquiredTasks>& acquired) {
  std::vector<std::string> names;
  for (const TaskSnapshot& task : acquired.value().tasks) names.push_back(task.name);
  return names;
}

// In memory, and on a disk.
class TaskRequestsTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) bench_.MoveTo(folder_.path());
    ASSERT_TRUE(bench_.Start().ok());
    Open("rounds/r");
  }
  void Open(const std::string& round) {
    bench_.OpenRound(round, GetParam() ? Durability::kDurable : Durability::kMemory);
  }
  // The next process, where one finds what the last has left.
  void Restart() {
    if (!GetParam()) return;
    ASSERT_TRUE(bench_.Start().ok());
  }
  static TaskLeaseKey KeyOf(const TaskSnapshot& task) { return {task.name, task.lease->token}; }

  testing::TemporaryFolder folder_;
  TaskBench bench_;
};
INSTANTIATE_TEST_SUITE_P(Stores, TaskRequestsTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Durable" : "Memory"; });

// --- Tokens ---

TEST_P(TaskRequestsTest, ATokenOfAnEarlierLeaseIsFencedWhateverHasBecomeOfTheTask) {
  TaskGroupSpec spec;
  spec.payload = "secret";
  ASSERT_TRUE(bench_.Create("g", 1, "rounds/r", spec).ok());
  const TaskSnapshot old = bench_.Take("first");
  const FailArgs failed{.reason = "no memory", .retryable = true};
  ASSERT_TRUE(bench_.Fail(old, failed).ok());
  EXPECT_TRUE(bench_.Fail(old, failed).ok()) << "the call that ended its own lease, once more";
  const TaskSnapshot second = bench_.Take("second");
  ASSERT_EQ(second.name, old.name);

  const TaskViewer first{.worker = "first"};
  const auto expect_fenced = [&](const char* when) {
    Restart();
    const Receipt receipt{.round = "rounds/r", .contributor = "g/1", .update_id = "u"};
    Tasks& tasks = bench_.tasks();
    EXPECT_EQ(ErrorReason(tasks.Complete("default", first, KeyOf(old), receipt).status()),
              "TASK_FENCED")
        << when;
    EXPECT_EQ(ErrorReason(tasks.Fail("default", first, KeyOf(old), failed).status()), "TASK_FENCED")
        << when;
    EXPECT_EQ(ErrorReason(tasks.Get("default", first, old.name).status()), "TASK_NOT_FOUND")
        << when;
  };
  expect_fenced("another worker has the task");
  bench_.Pass(kLease);
  bench_.tasks().Tick();
  expect_fenced("its lease has ended, too");
  const TaskSnapshot third = bench_.Take("third");
  ASSERT_TRUE(bench_.Submit("rounds/r", "g/1").ok());
  bench_.Pass(kLease);
  bench_.tasks().Tick();
  ASSERT_EQ(bench_.Get(third.name).state, TaskState::kCompleted);
  expect_fenced("the update has completed the task");
}

TEST_P(TaskRequestsTest, TheCallThatEndedItsOwnLeaseIsRepeatedAndShowsNoPayload) {
  TaskGroupSpec spec;
  spec.payload = "large";
  ASSERT_TRUE(bench_.Create("g", 2, "rounds/r", spec).ok());
  const TaskSnapshot completed = bench_.Take("w");
  const Receipt receipt = bench_.Submit("rounds/r", "g/1").value();
  const TaskSnapshot failed = bench_.Take("w");
  for (int i = 0; i < 3; ++i) {
    const auto done = bench_.Complete(completed, receipt);
    ASSERT_TRUE(done.ok()) << done.status();
    EXPECT_EQ(done->payload, nullptr) << "the worker has it";
    const auto over = bench_.Fail(failed, {});
    ASSERT_TRUE(over.ok()) << over.status();
    EXPECT_EQ(over->payload, nullptr);
    Restart();
  }
}

// --- Request ids of acquisitions ---

TEST_P(TaskRequestsTest, ARepeatedAcquisitionReturnsTheSameLeases) {
  ASSERT_TRUE(bench_.Create("g", 5).ok());
  const auto first = bench_.Acquire("w", 2, "request-1");
  Restart();
  const auto again = bench_.Acquire("w", 2, "request-1");
  EXPECT_EQ(NamesOf(again), NamesOf(first));
  EXPECT_EQ(again->tasks[0].lease->token, first->tasks[0].lease->token);
  EXPECT_NE(NamesOf(bench_.Acquire("w", 2, "request-2")), NamesOf(first));
  EXPECT_NE(NamesOf(bench_.Acquire("v", 1, "request-1")), NamesOf(first));
}

TEST_P(TaskRequestsTest, ARepeatedAcquisitionLeasesNothingASecondTime) {
  ASSERT_TRUE(bench_.Create("g", 5).ok());
  const auto first = bench_.Acquire("w", 2, "request-1");
  ASSERT_THAT(first->tasks, SizeIs(2));
  ASSERT_TRUE(bench_.Complete(first->tasks[0], *bench_.Submit("rounds/r", "g/1")).ok());
  EXPECT_THAT(NamesOf(bench_.Acquire("w", 2, "request-1")), ElementsAre("taskgroups/g/tasks/2"))
      << "the lease that is still valid";
  ASSERT_TRUE(bench_.Fail(first->tasks[1], {.retryable = true}).ok());
  EXPECT_THAT(NamesOf(bench_.Acquire("w", 2, "request-1")), IsEmpty());
  Restart();
  EXPECT_THAT(NamesOf(bench_.Acquire("w", 2, "request-1")), IsEmpty());
  EXPECT_EQ(bench_.Group("taskgroups/g").leases, 2u);
  EXPECT_THAT(NamesOf(bench_.Acquire("w", 2, "request-2")), SizeIs(2));
}

TEST_P(TaskRequestsTest, AnAcquisitionIsRememberedAfterItsLeasesRanOut) {
  ASSERT_TRUE(bench_.Create("g", 2).ok());
  ASSERT_THAT(bench_.Acquire("w", 2, "request-1")->tasks, SizeIs(2));
  bench_.Pass(kLease);
  EXPECT_THAT(NamesOf(bench_.Acquire("w", 2, "request-1")), IsEmpty());
  bench_.Pass(std::chrono::hours(7 * 24));
  bench_.tasks().Tick();
  EXPECT_THAT(NamesOf(bench_.Acquire("w", 2, "request-1")), SizeIs(2)) << "the horizon is over";
}

// A step ends 20,000 leases at most.
TEST_P(TaskRequestsTest, ARepeatedAcquisitionReturnsNoLeaseThatIsOver) {
  ASSERT_TRUE(bench_.Create("g", 20'001).ok());
  for (int i = 0; i < 200; ++i) ASSERT_THAT(bench_.Acquire("v", 100)->tasks, SizeIs(100));
  ASSERT_THAT(bench_.Acquire("w", 1, "request-1")->tasks, SizeIs(1));
  bench_.Pass(kLease);
  EXPECT_THAT(NamesOf(bench_.Acquire("w", 1, "request-1")), IsEmpty());
}

TEST_P(TaskRequestsTest, APollIsRepeatedAsOftenAsOneLikes) {
  EXPECT_THAT(NamesOf(bench_.Acquire("w", 1, "request-1")), IsEmpty());
  ASSERT_TRUE(bench_.Create("g", 1).ok());
  EXPECT_THAT(NamesOf(bench_.Acquire("w", 1, "request-1")), SizeIs(1)) << "it leased nothing yet";
}

TEST(TaskRequestsOnAFullDiskTest, AnAcquisitionThatWasNotStoredIsNotRemembered) {
  testing::TemporaryFolder folder;
  absl::Status disk;
  TaskBench bench(folder.path(), FailpointHook([&](Failpoint point) {
                    return point == Failpoint::kRowsWritten ? disk : absl::OkStatus();
                  }));
  ASSERT_TRUE(bench.Start().ok());
  bench.OpenRound("rounds/r", Durability::kDurable);
  ASSERT_TRUE(bench.Create("g", 1).ok());
  disk = absl::ResourceExhaustedError("the disk is full");
  EXPECT_FALSE(bench.Acquire("w", 1, "request-1").ok());
  disk = absl::OkStatus();
  EXPECT_THAT(bench.Acquire("w", 1, "request-1")->tasks, SizeIs(1));
}

TEST(RequestMemoryTest, ATenantWithoutRequestsIsForgotten) {
  RequestMemory<std::string, int> memory(10);
  memory.Add("acme", "old", 1, 100);
  memory.Add("other", "old", 2, 100);
  memory.Add("other", "new", 3, 200);
  memory.Add("third", "taken back", 4, 200);
  memory.TakeBack("third", "taken back");
  std::vector<std::string> forgotten;
  memory.ForgetBefore(150, [&](const std::string& tenant, const std::string& id) {
    forgotten.push_back(tenant + " " + id);
  });
  EXPECT_THAT(forgotten, ElementsAre("acme old", "other old"));
  EXPECT_EQ(memory.tenants(), 1u);
  EXPECT_EQ(*memory.Find("other", "new"), 3);
  EXPECT_EQ(memory.Find("acme", "old"), nullptr);
}

// --- Request ids of creations ---

class TaskCreationsTest : public TaskRequestsTest {
 protected:
  CreateTasksArgs ArgsFor(const std::vector<std::string>& rounds) {
    CreateTasksArgs args{.request_id = "once"};
    for (const std::string& round : rounds) {
      TaskGroupSpec& spec = args.groups.emplace_back();
      spec.pool = "pool";
      spec.round = round;
      spec.count = 2;
    }
    return args;
  }
  void Delete(const std::string& round) {
    bench_.EndRound(round, RoundState::kSealed);
    bench_.store().EraseRound(round).IgnoreError();
    bench_.EndRound(round, RoundState::kRetired);
    bench_.tasks().Tick();
  }
};
INSTANTIATE_TEST_SUITE_P(Stores, TaskCreationsTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Durable" : "Memory"; });

TEST_P(TaskCreationsTest, ACreationIsRepeatedWithItsRequestIdAlsoWhenTheRoundHasClosed) {
  CreateTasksArgs args = ArgsFor({"rounds/r", "rounds/r"});
  const auto created = bench_.tasks().Create(args);
  ASSERT_TRUE(created.ok());
  bench_.EndRound("rounds/r", RoundState::kSealed);
  Restart();
  const auto again = bench_.tasks().Create(args);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)[1].name, (*created)[1].name);
  args.groups[0].count = 3;
  EXPECT_EQ(ErrorReason(bench_.tasks().Create(args).status()), "REQUEST_ID_CONFLICT");
  args.request_id = "other";
  EXPECT_EQ(ErrorReason(bench_.tasks().Create(args).status()), "ROUND_NOT_OPEN");
}

TEST_P(TaskCreationsTest, ARoundWhoseUpdatesAreCountedAtLeavesHasNoTasks) {
  bench_.rounds.at("rounds/r").has_leaves = true;
  EXPECT_EQ(ErrorReason(bench_.tasks().Create(ArgsFor({"rounds/r"})).status()), "TREE_TASKS");
  bench_.rounds.at("rounds/r").has_leaves = false;
  EXPECT_TRUE(bench_.tasks().Create(ArgsFor({"rounds/r"})).ok());
}

TEST_P(TaskCreationsTest, ACreationIsNotRepeatedAfterARoundOfItWasDeletedAndItsNameUsedAgain) {
  Open("rounds/s");
  CreateTasksArgs args = ArgsFor({"rounds/r", "rounds/s"});
  ASSERT_TRUE(bench_.tasks().Create(args).ok());
  Delete("rounds/r");
  Open("rounds/r");
  const auto expect_remembered = [&] {
    EXPECT_EQ(ErrorReason(bench_.tasks().Create(args).status()), "TASK_GROUP_NOT_FOUND");
    CreateTasksArgs other = args;
    other.groups[0].count = 3;
    EXPECT_EQ(ErrorReason(bench_.tasks().Create(other).status()), "REQUEST_ID_CONFLICT");
  };
  expect_remembered();
  Restart();
  expect_remembered();
  EXPECT_EQ(bench_.tasks().Stats().available, 2u) << "those of rounds/s";
  Delete("rounds/s");
  Open("rounds/s");
  expect_remembered();
  EXPECT_EQ(bench_.tasks().Stats().available, 0u);
  bench_.Pass(std::chrono::hours(7 * 24) + milliseconds(1));
  bench_.tasks().Tick();
  Restart();
  EXPECT_TRUE(bench_.tasks().Create(args).ok()) << "the horizon is over";
}

TEST_P(TaskCreationsTest, ACreationIsRememberedWhicheverOfItsRoundsIsDeletedFirst) {
  Open("rounds/s");
  bench_.OpenRound("rounds/m", Durability::kMemory);
  const CreateTasksArgs args = ArgsFor({"rounds/m", "rounds/s"});
  ASSERT_TRUE(bench_.tasks().Create(args).ok());
  for (const char* round : {"rounds/m", "rounds/s"}) Delete(round);
  Restart();
  bench_.OpenRound("rounds/m", Durability::kMemory);
  Open("rounds/s");
  EXPECT_EQ(ErrorReason(bench_.tasks().Create(args).status()), "TASK_GROUP_NOT_FOUND");
}

TEST_P(TaskCreationsTest, WithoutAHorizonNoGroupThatIsLeftIsCreatedAgain) {
  bench_.retry_horizon_ms = 0;
  ASSERT_TRUE(bench_.Start().ok());
  Open("rounds/r");
  Open("rounds/s");
  const CreateTasksArgs args = ArgsFor({"rounds/r", "rounds/s"});
  ASSERT_TRUE(bench_.tasks().Create(args).ok());
  Delete("rounds/r");
  Open("rounds/r");
  bench_.Pass(milliseconds(250));
  bench_.tasks().Tick();
  EXPECT_EQ(ErrorReason(bench_.tasks().Create(args).status()), "TASK_GROUP_NOT_FOUND");
  EXPECT_EQ(bench_.tasks().Stats().available, 2u);
  Delete("rounds/s");
  Open("rounds/s");
  bench_.Pass(milliseconds(250));
  bench_.tasks().Tick();
  EXPECT_TRUE(bench_.tasks().Create(args).ok());
}

TEST_P(TaskCreationsTest, TheNameOfAGroupIsFreeAsSoonAsItsRoundIsDeleted) {
  ASSERT_TRUE(bench_.Create("g", 3).ok());
  bench_.EndRound("rounds/r", RoundState::kSealed);
  bench_.store().EraseRound("rounds/r").IgnoreError();
  bench_.EndRound("rounds/r", RoundState::kRetired);
  Open("rounds/r");
  const absl::Status created = bench_.Create("g", 2);
  EXPECT_TRUE(created.ok()) << created;
  Restart();
  EXPECT_EQ(bench_.Group("taskgroups/g").available, 2u);
}

TEST_P(TaskCreationsTest, TasksOfARoundAreNotThoseOfTheRoundThatHadItsNameBefore) {
  bench_.created_of_rounds = 1'000;
  Open("rounds/s");
  ASSERT_TRUE(bench_.Create("old", 2, "rounds/s").ok());
  // The engine frees the name before it tells of the end.
  bench_.store().EraseRound("rounds/s").IgnoreError();
  bench_.created_of_rounds = 2'000;
  Open("rounds/s");
  ASSERT_TRUE(bench_.Create("new", 3, "rounds/s").ok());
  bench_.Tell("rounds/s", RoundState::kSealed, 1'000);
  bench_.Tell("rounds/s", RoundState::kRetired, 1'000);
  bench_.tasks().Tick();
  EXPECT_EQ(ErrorReason(bench_.tasks().GetGroup("default", "taskgroups/old").status()),
            "TASK_GROUP_NOT_FOUND");
  EXPECT_EQ(bench_.Group("taskgroups/new").available, 3u);
  Restart();
  EXPECT_EQ(bench_.Group("taskgroups/new").available, 3u);
}

}  // namespace
}  // namespace sparseagg
