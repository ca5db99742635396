// What a start makes of the rows that it finds: those of an earlier version, damaged ones, and
// those that belong to nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/store/database.h"
#include "service/tasks/stored_tasks.h"
#include "tests/service/tasks/task_bench.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TaskBench;

constexpr milliseconds kLease = kTaskLeaseDefault;

class TaskRecoveryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(bench_.Start().ok());
    bench_.OpenRound("rounds/r", Durability::kDurable);
  }
  // Ends the process and changes the database.
  void Damage(const std::vector<const char*>& statements) {
    bench_.Kill();
    auto database = Database::Open(folder_.path() + "/store.db");
    ASSERT_TRUE(database.ok());
    for (const char* sql : statements) ASSERT_TRUE((*database)->Run(sql).ok()) << sql;
  }
  std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    EXPECT_TRUE(
        bench_.rows().ReadTaskRows("", [&](const TaskRow& row) { keys.push_back(row.key); }).ok());
    return keys;
  }

  absl::Status Pass(Failpoint point) {
    if (point == Failpoint::kGroupTaken) is_group_ = true;
    const bool fails = point == Failpoint::kRowsWritten && std::exchange(is_group_, false);
    return fails ? disk_ : absl::OkStatus();
  }

  testing::TemporaryFolder folder_;
  absl::Status disk_;      // what the disk answers to rows of tasks that are written
  bool is_group_ = false;  // the next rows are those of a group commit
  TaskBench bench_{folder_.path(), FailpointHook([this](Failpoint point) { return Pass(point); })};
};

TEST_F(TaskRecoveryTest, ADamagedRowEndsItsTaskOrItsGroupOnly) {
  ASSERT_TRUE(bench_.Create("g", 2).ok());
  ASSERT_TRUE(bench_.Create("h", 2).ok());
  bench_.Take("w");
  Damage({"UPDATE tasks SET value = x'00' WHERE key LIKE 'task:%'",
          "UPDATE tasks SET value = x'00' WHERE key LIKE '%/h'"});
  ASSERT_TRUE(bench_.Start().ok());
  EXPECT_THAT(bench_.recovery.damaged_groups, ElementsAre("taskgroups/h"));
  EXPECT_EQ(bench_.recovery.damaged_tasks, 1u);
  const TaskSnapshot task = bench_.Get("taskgroups/g/tasks/1");
  EXPECT_EQ(task.end, TaskEnd::kStoreCorrupt);
  EXPECT_EQ(bench_.Get("taskgroups/g/tasks/2").state, TaskState::kAvailable);
  bench_.Pass(seconds(10));
  // A final state stays, also if an update is counted later.
  ASSERT_TRUE(bench_.Submit("rounds/r", task.contributor).ok());
  ASSERT_TRUE(bench_.Start().ok());
  EXPECT_THAT(bench_.recovery.damaged_groups, SizeIs(0)) << "its rows were deleted";
  EXPECT_EQ(bench_.recovery.damaged_tasks, 0u);
  EXPECT_EQ(bench_.Get(task.name).end, TaskEnd::kStoreCorrupt);
  EXPECT_EQ(bench_.Get(task.name).end_time, task.end_time);
}

TEST_F(TaskRecoveryTest, ATaskWhoseRowIsDamagedDoesNotEndWithItsGroup) {
  ASSERT_TRUE(bench_.Create("g", 3).ok());
  const TaskSnapshot completed = bench_.Take("w");
  ASSERT_TRUE(bench_.Complete(completed, *bench_.Submit("rounds/r", "g/1")).ok());
  const TaskSnapshot failed = bench_.Take("w");
  ASSERT_TRUE(bench_.Fail(failed, {.reason = "no model"}).ok());
  bench_.EndRound("rounds/r", RoundState::kSealed);
  bench_.tasks().Tick();
  ASSERT_EQ(bench_.Get("taskgroups/g/tasks/3").end, TaskEnd::kRoundClosed);
  Damage({"UPDATE tasks SET value = x'00' WHERE key LIKE 'task:%'"});
  for (const uint64_t damaged : {1u, 0u}) {
    ASSERT_TRUE(bench_.Start().ok());
    EXPECT_EQ(bench_.recovery.damaged_tasks, damaged);
    EXPECT_EQ(bench_.Get(completed.name).state, TaskState::kCompleted) << "its update is counted";
    EXPECT_EQ(bench_.Get(failed.name).end, TaskEnd::kStoreCorrupt);
    EXPECT_EQ(bench_.Get("taskgroups/g/tasks/3").end, TaskEnd::kRoundClosed);
    const TaskGroupSnapshot group = bench_.Group("taskgroups/g");
    EXPECT_EQ(group.completed, 1u);
    EXPECT_EQ(group.cancelled, 2u);
  }
}

TEST_F(TaskRecoveryTest, AProcessOnARestoredBackupGivesTokensOfItsOwn) {
  ASSERT_TRUE(bench_.Create("g", 1).ok());
  bench_.Kill();
  const testing::TemporaryFolder backups;
  const std::string backup = backups.path() + "/backup";
  std::filesystem::copy(folder_.path(), backup, std::filesystem::copy_options::recursive);
  ASSERT_TRUE(bench_.Start().ok());
  const TaskSnapshot lost = bench_.Take("w");
  bench_.MoveTo(backup);
  ASSERT_TRUE(bench_.Start().ok());
  const TaskSnapshot task = bench_.Take("v");
  ASSERT_EQ(task.name, lost.name);
  EXPECT_NE(task.lease->token, lost.lease->token);
  EXPECT_EQ(ErrorReason(bench_.Renew(lost)), "TASK_FENCED");
  EXPECT_TRUE(bench_.Renew(task).ok());
  ASSERT_TRUE(bench_.Fail(task, {.handed_back = true}).ok());
  ASSERT_TRUE(bench_.Start().ok());
  EXPECT_GT(bench_.Take("w").lease->token, task.lease->token);
}

TEST_F(TaskRecoveryTest, ARequestThatIsForgottenWhileTheDiskIsFullIsDeletedLater) {
  bench_.OpenRound("rounds/s", Durability::kDurable);
  TaskGroupSpec spec;
  spec.pool = "pool";
  spec.round = "rounds/s";
  spec.count = 1;
  ASSERT_TRUE(bench_.tasks().Create({.request_id = "once", .groups = {spec}}).ok());
  bench_.EndRound("rounds/s", RoundState::kRetired);
  bench_.tasks().Tick();
  ASSERT_THAT(Keys(), ElementsAre("clock", "request:default once"));
  bench_.Pass(hours(7 * 24) + milliseconds(1));
  disk_ = absl::ResourceExhaustedError("the disk is full");
  bench_.tasks().Tick();
  disk_ = absl::OkStatus();
  bench_.tasks().Tick();
  EXPECT_THAT(Keys(), ElementsAre("clock"));
}

TEST_F(TaskRecoveryTest, WithoutTheClockNoLeaseLastsLongerThanItsDuration) {
  bench_.Pass(hours(5));
  ASSERT_TRUE(bench_.Create("g", 2).ok());
  const TaskSnapshot first = bench_.Take("w");
  bench_.Pass(seconds(20));
  const TaskSnapshot second = bench_.Take("w");
  for (const char* damage : {"DELETE FROM tasks WHERE key = 'clock'",
                             "UPDATE tasks SET value = '7' WHERE key = 'clock'"}) {
    Damage({damage});
    ASSERT_TRUE(bench_.Start().ok());
    EXPECT_TRUE(bench_.recovery.is_clock_lost);
    EXPECT_EQ(bench_.Get(first.name).lease->time_left, kLease - seconds(20)) << damage;
    EXPECT_EQ(bench_.Get(second.name).lease->time_left, kLease) << damage;
  }
  ASSERT_TRUE(bench_.Start().ok());
  EXPECT_FALSE(bench_.recovery.is_clock_lost) << "it was stored again";
  bench_.Pass(kLease);
  EXPECT_EQ(bench_.Get(second.name).state, TaskState::kAvailable);
}

TEST_F(TaskRecoveryTest, ALeaseBeyondTheClockIsBounded) {
  bench_.Pass(hours(5));
  ASSERT_TRUE(bench_.Create("g", 1).ok());
  const TaskSnapshot task = bench_.Take("w");
  const TaskRow clock{.key = std::string(kClockRow), .value = "1000"};
  ASSERT_TRUE(bench_.rows().PutTaskRows({&clock, 1}, false).ok());
  ASSERT_TRUE(bench_.Start().ok());
  EXPECT_EQ(bench_.recovery.bounded_leases, 1u);
  EXPECT_EQ(bench_.Get(task.name).lease->time_left, kLease);
}

TEST_F(TaskRecoveryTest, TheTimeOfTheRecoveryIsNoneOfALease) {
  ASSERT_TRUE(bench_.Create("g", 1).ok());
  const TaskSnapshot task = bench_.Take("w");
  bench_.recovery_time = std::chrono::minutes(10);
  ASSERT_TRUE(bench_.Start().ok());
  EXPECT_EQ(bench_.Get(task.name).state, TaskState::kLeased);
  EXPECT_EQ(bench_.Get(task.name).lease->time_left, kLease);
}

TEST_F(TaskRecoveryTest, RowsWithoutTheirGroupAreDeletedAndReported) {
  for (const char* damage :
       {"DELETE FROM tasks WHERE key = 'group:taskgroups/g'",
        "UPDATE tasks SET key = 'grouq:taskgroups/g' WHERE key = 'group:taskgroups/g'"}) {
    ASSERT_TRUE(bench_.Create("g", 3).ok());
    ASSERT_TRUE(bench_.Fail(bench_.Take("w"), {}).ok());
    Damage({damage});
    ASSERT_TRUE(bench_.Start().ok());
    EXPECT_THAT(bench_.recovery.damaged_groups, ElementsAre("taskgroups/g"));
    EXPECT_THAT(Keys(), ElementsAre("clock")) << damage;
  }
  ASSERT_TRUE(bench_.Create("g", 3).ok());
  ASSERT_TRUE(bench_.Start().ok());
  EXPECT_THAT(bench_.recovery.damaged_groups, IsEmpty());
  EXPECT_EQ(bench_.Group("taskgroups/g").available, 3u);
}

TEST_F(TaskRecoveryTest, NoRowIsReadAsOneOfALaterGroupOfTheSameName) {
  ASSERT_TRUE(bench_.Create("g", 3).ok());
  ASSERT_TRUE(bench_.Fail(bench_.Take("w"), {}).ok());
  ASSERT_TRUE(bench_.tasks().Cancel("default", {"taskgroups/g"}).ok());
  Damage({"DELETE FROM tasks WHERE key = 'group:taskgroups/g'"});
  disk_ = absl::ResourceExhaustedError("the disk is full");
  ASSERT_TRUE(bench_.Start().ok()) << "a full disk does not keep the server from its start";
  EXPECT_THAT(Keys(), SizeIs(3)) << "they cannot be deleted now";
  disk_ = absl::OkStatus();
  ASSERT_TRUE(bench_.Create("g", 2).ok());
  ASSERT_TRUE(bench_.Start().ok());
  EXPECT_EQ(bench_.Group("taskgroups/g").available, 2u);
}

TEST_F(TaskRecoveryTest, AGroupThatEndedAsAWholeHasOneRowAndComesBackAsItWas) {
  bench_.OpenRound("rounds/s", Durability::kDurable);
  ASSERT_TRUE(bench_.Create("g", 50).ok());
  ASSERT_TRUE(bench_.Create("h", 5, "rounds/s").ok());
  const auto held = bench_.Acquire("w", 6);
  ASSERT_TRUE(bench_.Fail(held->tasks[0], {.reason = "broken"}).ok());
  for (const int counted : {3, 4, 6, 50}) {
    ASSERT_TRUE(bench_.Submit("rounds/r", absl::StrCat("g/", counted)).ok());
  }
  EXPECT_EQ(bench_.tasks().Cancel("default", {"taskgroups/g"}).value(), 45u);
  // One for the group, six of tasks that were touched, and the end.
  EXPECT_THAT(Keys(), SizeIs(1 + 2 + 6 + 1));
  std::vector<TaskSnapshot> before;
  for (int n = 1; n <= 50; ++n) {
    before.push_back(bench_.Get(absl::StrCat("taskgroups/g/tasks/", n)));
  }
  // What is counted later completes none of them.
  ASSERT_TRUE(bench_.Submit("rounds/r", "g/7").ok());
  bench_.Pass(hours(1));
  ASSERT_TRUE(bench_.Start().ok());
  for (const TaskSnapshot& task : before) {
    const TaskSnapshot after = bench_.Get(task.name);
    EXPECT_EQ(after.state, task.state) << task.name;
    EXPECT_EQ(after.end, task.end) << task.name;
    EXPECT_EQ(after.end_time, task.end_time) << task.name;
    EXPECT_EQ(after.worker, task.worker) << task.name;
    EXPECT_EQ(after.leases, task.leases) << task.name;
    EXPECT_EQ(after.last_failure, task.last_failure) << task.name;
  }
  const TaskGroupSnapshot group = bench_.Group("taskgroups/g");
  EXPECT_EQ(group.completed, 4u);
  EXPECT_EQ(group.failed, 1u);
  EXPECT_EQ(group.cancelled, 45u);
  EXPECT_EQ(group.leases, 6u);
  EXPECT_EQ(bench_.Group("taskgroups/h").available, 5u);
}

TEST_F(TaskRecoveryTest, ADamagedEndOfAGroupIsAnEnd) {
  ASSERT_TRUE(bench_.Create("g", 3).ok());
  ASSERT_TRUE(bench_.tasks().Cancel("default", {"taskgroups/g"}).ok());
  Damage({"UPDATE tasks SET value = x'00' WHERE key LIKE 'end:%'"});
  for (const uint64_t damaged : {3u, 0u}) {
    ASSERT_TRUE(bench_.Start().ok());
    EXPECT_EQ(bench_.recovery.damaged_tasks, damaged);
    EXPECT_EQ(bench_.Get("taskgroups/g/tasks/1").end, TaskEnd::kStoreCorrupt);
  }
}

TEST_F(TaskRecoveryTest, TimesHaveOnePrecisionBeforeAndAfterAStart) {
  TaskGroupSpec spec;
  spec.open_until = bench_.wall() + hours(1) + std::chrono::microseconds(77);
  ASSERT_TRUE(bench_.Create("g", 1, "rounds/r", spec).ok());
  const TaskGroupSnapshot before = bench_.Group("taskgroups/g");
  EXPECT_EQ(before.create_time, std::chrono::floor<milliseconds>(before.create_time));
  ASSERT_TRUE(bench_.Start().ok());
  const TaskGroupSnapshot after = bench_.Group("taskgroups/g");
  EXPECT_EQ(after.create_time, before.create_time);
  EXPECT_EQ(after.deadline, before.deadline);
}

TEST_F(TaskRecoveryTest, TasksOfARoundThatWasReplacedWhileNobodyLookedAreForgotten) {
  bench_.created_of_rounds = 1'000;
  bench_.OpenRound("rounds/s", Durability::kDurable);
  ASSERT_TRUE(bench_.Create("g", 2, "rounds/s").ok());
  bench_.created_of_rounds = 2'000;
  bench_.OpenRound("rounds/s", Durability::kDurable);
  ASSERT_TRUE(bench_.Start().ok());
  EXPECT_EQ(bench_.tasks().Stats().groups, 0u);
  EXPECT_THAT(Keys(), ElementsAre("clock"));
}

// --- The rows of the first version of tasks ---

TEST_F(TaskRecoveryTest, NobodyGetsTasksOfARoundThatIsOutOfUseUntilTheNextStart) {
  ASSERT_TRUE(bench_.Create("g", 3).ok());
  const TaskSnapshot counted = bench_.Take("a");
  const TaskSnapshot task = bench_.Take("b");
  ASSERT_TRUE(bench_.Submit("rounds/r", counted.contributor).ok());
  bench_.Suspend("rounds/r");
  EXPECT_THAT(bench_.Acquire("c")->tasks, IsEmpty());
  EXPECT_EQ(bench_.Get(counted.name).state, TaskState::kCompleted);
  EXPECT_EQ(ErrorReason(bench_.Renew(task)), "TASK_FENCED");
  EXPECT_EQ(ErrorReason(bench_.Fail(task, {.reason = "its round is not open"}).status()),
            "TASK_FENCED");
  EXPECT_EQ(bench_.Group("taskgroups/g").available, 2u);
  EXPECT_EQ(bench_.Get(task.name).attempts, 0u) << "its worker has done nothing wrong";
  ASSERT_TRUE(bench_.Start().ok());
  EXPECT_THAT(bench_.Acquire("c")->tasks, IsEmpty()) << "it could not be restored";
  bench_.out_of_use.clear();
  ASSERT_TRUE(bench_.Start().ok());
  EXPECT_EQ(bench_.Get(task.name).attempts, 0u);
  EXPECT_THAT(bench_.Acquire("c", 3)->tasks, SizeIs(2));
}

TEST_F(TaskRecoveryTest, ARoundThatIsOutOfUseSuspendsTheTasksLeasedBefore) {
  ASSERT_TRUE(bench_.Create("g", 1).ok());
  const TaskSnapshot task = bench_.Take("a");
  bench_.out_of_use.insert("rounds/r");
  ASSERT_TRUE(bench_.Start().ok());
  EXPECT_EQ(ErrorReason(bench_.Renew(task)), "TASK_FENCED");
  EXPECT_EQ(bench_.Get(task.name).state, TaskState::kAvailable);
  EXPECT_EQ(bench_.Get(task.name).attempts, 0u);
  EXPECT_THAT(bench_.Acquire("c")->tasks, IsEmpty());
  bench_.EndRound("rounds/r", RoundState::kRetired);
  bench_.tasks().Tick();
  EXPECT_FALSE(bench_.tasks().GetGroup("default", "taskgroups/g").ok()) << "it ends with its round";
}

TEST_F(TaskRecoveryTest, ASuspensionThatCannotBeStoredIsMadeUpFor) {
  ASSERT_TRUE(bench_.Create("g", 2).ok());
  const TaskSnapshot task = bench_.Take("a");
  disk_ = absl::ResourceExhaustedError("the disk is full");
  bench_.Suspend("rounds/r");
  bench_.tasks().Tick();
  EXPECT_FALSE(bench_.Renew(task).ok());
  EXPECT_FALSE(bench_.Acquire("c").ok());
  disk_ = absl::OkStatus();
  EXPECT_THAT(bench_.Acquire("c")->tasks, IsEmpty());
  EXPECT_EQ(bench_.Get(task.name).attempts, 0u);
  EXPECT_EQ(bench_.Group("taskgroups/g").available, 2u);
  EXPECT_EQ(bench_.tasks().Cancel("default", {"taskgroups/g"}).value(), 2u);
}

TEST_F(TaskRecoveryTest, TheRowsOfAnEarlierVersionAreRead) {
  const auto row = [](const char* key, const char* value) { return TaskRow{key, value}; };
  const std::vector<TaskRow> rows = {
      row("clock", "18020000"),
      row("group:taskgroups/g",
          R"({"attempts_max":3,"contributors":[],"count":4,"created_ms":1700000000123,)"
          R"("deadline_ms":4000000000000,"lease_ms":60000,"order":7,"pool":"pool","request_digest":)"
          R"("d1","request_id":"once","required":["gpu"],"round":"rounds/r"})"
          "\nlr=0.1"),
      row("task:taskgroups/g/1",
          R"({"attempts":1,"lease_end_ms":18060000,"leases":1,"request_id":"request-1",)"
          R"("state":2,"token":4294967298,"worker":"w"})"),
      row("task:taskgroups/g/2",
          R"({"answered":4294967297,"attempts":2,"end_ms":1700000001000,"failure":"no memory",)"
          R"("leases":2,"state":3,"token":4294967299,"worker":"v"})"),
      row("task:taskgroups/g/3",
          R"({"answered":4294967300,"attempts":1,"end":2,"end_ms":1700000002000,)"
          R"("failure":"no model","leases":1,"state":4,"token":4294967300,"worker":"v"})"),
  };
  ASSERT_TRUE(bench_.rows().PutTaskRows(rows, false).ok());
  ASSERT_TRUE(bench_.Start().ok());
  EXPECT_THAT(bench_.recovery.damaged_groups, IsEmpty());
  EXPECT_EQ(bench_.recovery.damaged_tasks, 0u);
  EXPECT_FALSE(bench_.recovery.is_clock_lost);

  const TaskSnapshot leased = bench_.Get("taskgroups/g/tasks/1");
  EXPECT_EQ(*leased.payload, "lr=0.1");
  EXPECT_EQ(leased.state, TaskState::kLeased);
  EXPECT_EQ(leased.lease->time_left, seconds(40));
  EXPECT_EQ(leased.create_time.time_since_epoch(), milliseconds(1700000000123));
  const AcquireArgs again{
      .worker = "w", .pools = {"pool"}, .capabilities = {"gpu"}, .request_id = "request-1"};
  const auto repeated = bench_.tasks().Acquire("default", again);
  ASSERT_THAT(repeated->tasks, SizeIs(1));
  EXPECT_EQ(repeated->tasks[0].lease->token, 4294967298u);
  EXPECT_TRUE(bench_.Renew(leased).ok());

  const TaskSnapshot completed = bench_.Get("taskgroups/g/tasks/2");
  EXPECT_EQ(completed.state, TaskState::kCompleted);
  EXPECT_EQ(completed.last_failure, "no memory");
  const Receipt receipt{.round = "rounds/r", .contributor = "g/2", .update_id = "u"};
  const auto complete = [&](uint64_t token) {
    return bench_.tasks().Complete("default", {}, {completed.name, token}, receipt).status();
  };
  EXPECT_EQ(ErrorReason(complete(4294967297u)), "TASK_FENCED") << "the token of an earlier lease";
  const TaskSnapshot failed = bench_.Get("taskgroups/g/tasks/3");
  EXPECT_EQ(failed.end, TaskEnd::kNotRetryable);
  EXPECT_TRUE(bench_.tasks().Fail("default", {}, {failed.name, 4294967300u}, {}).ok());

  AcquireArgs fresh = again;
  fresh.request_id = "request-2";
  const auto next = bench_.tasks().Acquire("default", fresh);
  ASSERT_THAT(next->tasks, SizeIs(1));
  EXPECT_EQ(next->tasks[0].name, "taskgroups/g/tasks/4");
  EXPECT_GT(next->tasks[0].lease->token, 4294967300u);
}

TEST(StoredTasksTest, NumbersBeyondTheirRangeAreDamage) {
  const auto group = [](const char* field, const char* value) {
    std::string row =
        R"({"attempts_max":3,"contributors":[],"count":4,"created_ms":5,"lease_ms":60000,"order":7,)"
        R"("pool":"p","request_digest":"","request_id":"","required":[],"round":"rounds/r"})";
    const std::string name = absl::StrCat("\"", field, "\":");
    const size_t at = row.find(name) + name.size();
    row.replace(at, row.find_first_of(",}", at) - at, value);
    return ReadTaskGroup("taskgroups/g", row + "\n").status();
  };
  EXPECT_TRUE(group("count", "5").ok());
  for (const auto& [field, value] :
       std::vector<std::pair<const char*, const char*>>{{"count", "0"},
                                                        {"count", "100001"},
                                                        {"count", "4294967300"},
                                                        {"count", "4.5"},
                                                        {"attempts_max", "-1"},
                                                        {"attempts_max", "4294967299"},
                                                        {"lease_ms", "9223372036854775807"},
                                                        {"created_ms", "9223372036854775807"},
                                                        {"order", "18446744073709551615"}}) {
    EXPECT_EQ(ErrorReason(group(field, value)), "STORE_CORRUPT") << field << " " << value;
  }
  const auto task = [](const char* numbers) {
    return ReadTask("default", absl::StrCat(R"({"attempts":1,"leases":1,"token":1,"worker":"w",)",
                                            numbers, "}"))
        .status();
  };
  EXPECT_TRUE(task(R"("state":2,"lease_end_ms":5)").ok());
  for (const char* numbers :
       {R"("state":4294967298)", R"("state":0)", R"("state":6)", R"("state":2,"end":4294967296)",
        R"("state":2,"lease_end_ms":-1)", R"("state":2,"lease_end_ms":9223372036854775807)"}) {
    EXPECT_EQ(ErrorReason(task(numbers)), "STORE_CORRUPT") << numbers;
  }
  EXPECT_TRUE(ReadGroupEnd(R"({"state":5,"end":5,"end_ms":9,"completed":[[1,2],[4,4]]})").ok());
  for (const char* end : {R"({"state":1,"end":5,"end_ms":9})",
                          R"({"state":5,"end":5,"end_ms":9,"completed":[[2,1]]})",
                          R"({"state":5,"end":5,"end_ms":9,"completed":[[1,2],[2,4]]})",
                          R"({"state":5,"end":5,"end_ms":9,"completed":[[1,4294967297]]})"}) {
    EXPECT_EQ(ErrorReason(ReadGroupEnd(end).status()), "STORE_CORRUPT") << end;
  }
}

}  // namespace
}  // namespace sparseagg
