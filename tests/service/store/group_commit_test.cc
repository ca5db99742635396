#include "service/store/group_commit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace sparseagg {
namespace {

TEST(GroupCommitTest, CommitsOneItemAlone) {
  std::vector<int*> committed;
  GroupCommit<int> commits([&](std::span<int* const> group) {
    committed.insert(committed.end(), group.begin(), group.end());
  });
  int item = 7;
  commits.Run(item);
  EXPECT_EQ(committed, std::vector<int*>{&item});
}

TEST(GroupCommitTest, CommitsEveryItemOnceOneGroupAtATimeAndJoinsThoseThatWait) {
  constexpr int kThreads = 8;
  constexpr int kItems = 200;
  std::atomic<int> inside = 0;
  int committed = 0;
  int groups = 0;
  GroupCommit<int> commits([&](std::span<int* const> group) {
    EXPECT_EQ(++inside, 1);
    for (int* item : group) committed += ++*item;
    ++groups;
    for (int i = 0; i < 50; ++i) std::this_thread::yield();  // other callers arrive
    --inside;
  });
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kItems; ++i) {
        int item = 0;
        commits.Run(item);
        EXPECT_EQ(item, 1);  // committed before Run() returned, and once
      }
    });
  }
  threads.clear();
  EXPECT_EQ(committed, kThreads * kItems);
  EXPECT_LT(groups, kThreads * kItems);
}

}  // namespace
}  // namespace sparseagg
