// Damaged rows of tasks. Such a row may not have the key that was read: the key comes from the
// index, which may be damaged as well, so that it is perhaps a healthy row's, or a part of one.
#include "service/tasks/task_restorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kGroup[] = "taskgroups/r3";

TaskRow Damaged(const std::string& key) { return {key, std::nullopt}; }
TaskRow GroupRow() {
  TaskGroupInfo info{.name = kGroup, .pool = "pool", .round = "rounds/r", .order = 1, .count = 5};
  info.lease = std::chrono::milliseconds(60'000);
  info.attempts_max = 3;
  return {GroupRowKey(kGroup), WriteTaskGroup(info)};
}
TaskRow FailedRow(uint32_t number) {
  const TaskRecord failed{.state = TaskState::kFailed,
                          .end = TaskEnd::kNotRetryable,
                          .attempts = 1,
                          .leases = 1,
                          .token = 7,
                          .worker = "w"};
  return {TaskRowKey(kGroup, number), WriteTask(failed)};
}
TaskRow LeasedRow(uint32_t number) {
  const TaskRecord leased{.state = TaskState::kLeased,
                          .attempts = 1,
                          .leases = 1,
                          .token = 8,
                          .lease_end_ms = 60'000,
                          .worker = "w"};
  return {TaskRowKey(kGroup, number), WriteTask(leased)};
}
TaskRow EndRow() {
  return {EndRowKey(kGroup),
          WriteGroupEnd({.why = TaskEnd::kRequested, .end_time_ms = 9, .completed = {{2, 2}}})};
}

// A start that finds the rows, in this order.
struct Start {
  explicit Start(const std::vector<TaskRow>& rows) {
    TaskRestorer restorer(table, {});
    for (const TaskRow& row : rows) restorer.Read(row);
    result = restorer.Finish();
    for (const TaskRow& row : result.deletions) {
      deleted.push_back(absl::StrCat(row.key, row.is_prefix ? "*" : ""));
    }
  }
  const TaskRecord& Task(uint32_t number) { return table.FindGroup(kGroup)->task(number); }

  TaskTable table{[](const std::string&, const std::string&) { return false; }, 1'000'000};
  TaskRestorer::Result result;
  std::vector<std::string> deleted;  // with a star behind a prefix
};

// Calls `check` for the rows of a group with the healthy row first, and with the damaged one.
void InBothOrders(const TaskRow& healthy, const std::function<void(Start&)>& check) {
  for (const bool is_first : {true, false}) {
    std::vector<TaskRow> rows = {Damaged(healthy.key), healthy};
    if (is_first) std::ranges::reverse(rows);
    if (healthy.key != GroupRow().key) rows.insert(rows.begin(), GroupRow());
    if (healthy.key == GroupRow().key) rows.push_back(FailedRow(1));
    SCOPED_TRACE(absl::StrCat(healthy.key, is_first ? ", then damaged" : " after a damaged row"));
    Start start(rows);
    EXPECT_THAT(start.deleted, IsEmpty());
    EXPECT_THAT(start.result.damaged_groups, IsEmpty());
    EXPECT_EQ(start.result.damaged_tasks, 0u);
    EXPECT_EQ(start.result.ignored_rows, 1u);
    check(start);
  }
}

TEST(TaskRestorerTest, ADamagedRowWithTheKeyOfAHealthyGroupDeletesNothingOfIt) {
  InBothOrders(GroupRow(), [](Start& start) {
    ASSERT_NE(start.table.FindGroup(kGroup), nullptr);
    EXPECT_EQ(start.Task(1).end, TaskEnd::kNotRetryable);
    EXPECT_EQ(start.Task(2).state, TaskState::kAvailable);
  });
}

TEST(TaskRestorerTest, ADamagedRowWithTheKeyOfAHealthyEndIsIgnored) {
  InBothOrders(EndRow(), [](Start& start) {
    EXPECT_EQ(start.Task(1).end, TaskEnd::kRequested);
    EXPECT_EQ(start.Task(2).state, TaskState::kCompleted);
    EXPECT_THAT(start.table.ended(), IsEmpty()) << "it would be stored as another end";
  });
}

TEST(TaskRestorerTest, ADamagedRowWithTheKeyOfAHealthyTaskIsIgnored) {
  InBothOrders(LeasedRow(3), [](Start& start) {
    EXPECT_EQ(start.Task(3).state, TaskState::kLeased);
    EXPECT_EQ(start.Task(1).state, TaskState::kAvailable);
  });
}

TEST(TaskRestorerTest, ADamagedRowWithTheKeyOfAHealthyRequestIsIgnored) {
  const TaskRow request{RequestRowKey("default", "once"),
                        WriteForgottenRequest({.digest = "d", .forgotten_ms = 5})};
  InBothOrders(request, [](Start& start) {
    ASSERT_NE(start.table.ForgottenRequest("default", "once"), nullptr);
  });
}

TEST(TaskRestorerTest, ADamagedRowWithTheKeyOfALaterVersionDeletesNothing) {
  InBothOrders({"later:thing", "value"}, [](Start&) {});
}

TEST(TaskRestorerTest, AKeyThatIsCutDeletesNoOtherRow) {
  for (const char* key :
       {"group:", "group:taskgroups", "group:taskgroups/", "end:taskgroups", "task:taskgroups/5",
        "task:taskgroups/r3", "task:/5", "group:tenants/acme", "group:tenants/acme/taskgroups",
        "task:tenants/acme/taskgroups/5", "group:taskgroups/r3/tasks/1"}) {
    Start start({GroupRow(), Damaged(key), FailedRow(1)});
    EXPECT_THAT(start.deleted, ElementsAre(key));
    EXPECT_THAT(start.result.damaged_groups, IsEmpty()) << key;
    EXPECT_EQ(start.Task(1).end, TaskEnd::kNotRetryable) << key;
  }
}

TEST(TaskRestorerTest, TheRowsOfAGroupWhoseOwnRowIsDamagedAreDeleted) {
  for (const std::string group : {"taskgroups/r1", "tenants/acme/taskgroups/r1"}) {
    Start start({GroupRow(), Damaged(GroupRowKey(group)), FailedRow(1)});
    EXPECT_THAT(start.result.damaged_groups, ElementsAre(group));
    EXPECT_THAT(start.deleted,
                ElementsAre(absl::StrCat("group:", group), absl::StrCat("end:", group),
                            absl::StrCat("task:", group, "/*")));
    EXPECT_NE(start.table.FindGroup(kGroup), nullptr);
  }
}

TEST(TaskRestorerTest, AGroupWithTheOrderOfAnotherIsDamaged) {
  TaskGroupInfo info{.name = "taskgroups/s", .pool = "pool", .round = "rounds/r", .order = 1};
  info.count = 2;
  Start start({GroupRow(), {GroupRowKey(info.name), WriteTaskGroup(info)}});
  EXPECT_THAT(start.result.damaged_groups, ElementsAre("taskgroups/s"));
  EXPECT_NE(start.table.FindGroup(kGroup), nullptr);
  EXPECT_EQ(start.table.FindGroup("taskgroups/s"), nullptr);
}

}  // namespace
}  // namespace sparseagg
