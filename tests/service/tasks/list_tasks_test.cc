#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/service/tasks/task_bench.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::SizeIs;

class ListTasksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(bench_.Start().ok());
    bench_.OpenRound("rounds/r");
  }
  TaskPage List(const ListTasksArgs& args, const TaskViewer& viewer = {}) {
    auto page = bench_.tasks().List(bench_.tenant, viewer, args);
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() ? *std::move(page) : TaskPage();
  }
  // The names of all pages, and how many pages they took.
  std::vector<std::string> ListAll(ListTasksArgs args, const TaskViewer& viewer = {}) {
    std::vector<std::string> names;
    pages_ = 0;
    do {
      const TaskPage page = List(args, viewer);
      ++pages_;
      for (const TaskSnapshot& task : page.tasks) {
        names.push_back(task.name);
        EXPECT_EQ(task.payload, nullptr);
      }
      args.page_token = page.next_page_token;
    } while (!args.page_token.empty() && pages_ < 1000);
    return names;
  }

  testing::TaskBench bench_;
  int pages_ = 0;
};

TEST_F(ListTasksTest, PagesHoldEveryTaskOnce) {
  ASSERT_TRUE(bench_.Create("g", 7).ok());
  ASSERT_TRUE(bench_.Create("f", 4).ok());
  bench_.Take("w");
  const auto names = ListAll({.page_size = 3});
  EXPECT_THAT(names, SizeIs(11));
  EXPECT_EQ(names[4], "taskgroups/g/tasks/1");
  EXPECT_THAT(ListAll({.state = TaskState::kLeased}), ElementsAre("taskgroups/g/tasks/1"));
  EXPECT_THAT(ListAll({.group = "taskgroups/f"}), SizeIs(4));
}

TEST_F(ListTasksTest, ACallLooksAtABoundedNumberOfTasksAndItsPageMayBeEmpty) {
  ASSERT_TRUE(bench_.Create("g", 90'000).ok());
  const std::string last = "taskgroups/g/tasks/90000";
  ASSERT_TRUE(bench_.tasks().Cancel("default", {last}).ok());
  const TaskPage first = List({.state = TaskState::kCancelled});
  EXPECT_THAT(first.tasks, SizeIs(0));
  EXPECT_NE(first.next_page_token, "");
  EXPECT_THAT(ListAll({.state = TaskState::kCancelled}), ElementsAre(last));
  EXPECT_THAT(pages_, Gt(3));
  EXPECT_LT(pages_, 10);
  bench_.Take("w");
  EXPECT_THAT(ListAll({}, {.worker = "w"}), ElementsAre("taskgroups/g/tasks/1"));
}

TEST_F(ListTasksTest, GroupsWithoutATaskOfTheStateAreNotLookedThrough) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(bench_.Create(absl::StrCat("g", i), 90'000).ok());
  bench_.Take("w");
  EXPECT_THAT(ListAll({.state = TaskState::kCompleted}), SizeIs(0));
  EXPECT_EQ(pages_, 1);
}

TEST_F(ListTasksTest, NoPageTokenIsTakenForATaskThatDoesNotExist) {
  ASSERT_TRUE(bench_.Create("g", 3).ok());
  ASSERT_TRUE(bench_.Create("h", 1).ok());
  // One more than the largest number is 0.
  for (const char* token : {"taskgroups/g/tasks/4294967295", "taskgroups/g/tasks/4"}) {
    const TaskPage page = List({.page_token = token});
    ASSERT_THAT(page.tasks, SizeIs(1)) << token;
    EXPECT_EQ(page.tasks[0].name, "taskgroups/h/tasks/1");
  }
  EXPECT_THAT(List({.page_token = "taskgroups/z"}).tasks, SizeIs(0));
  EXPECT_THAT(List({.page_token = "taskgroups/a/tasks/7"}).tasks, SizeIs(4));
  EXPECT_THAT(List({.group = "taskgroups/h", .page_token = "taskgroups/g/tasks/1"}).tasks,
              SizeIs(0));
}

TEST_F(ListTasksTest, TheTasksOfATenantEndWhereThoseOfTheNextBegin) {
  for (const char* tenant : {"acme", "acme-2", "b"}) {
    bench_.tenant = tenant;
    bench_.OpenRound(QualifiedName(tenant, "rounds/r"));
    ASSERT_TRUE(bench_.Create(absl::StrCat("of-", tenant), 2).ok());
  }
  bench_.tenant = "acme";
  EXPECT_THAT(ListAll({.page_size = 1}),
              ElementsAre("taskgroups/of-acme/tasks/1", "taskgroups/of-acme/tasks/2"));
  bench_.tenant = "default";
  EXPECT_THAT(ListAll({}), SizeIs(0));
}

}  // namespace
}  // namespace sparseagg
