#include "service/rpc/tenant_fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

namespace sparseagg {
namespace {

using ::testing::ElementsAre;

TEST(TenantFairQueueTest, AJobWaitsForOneJobOfEachOtherTenant) {
  std::vector<std::string> done;  // by one thread
  std::promise<void> may_go_on;
  {
    TenantFairQueue queue(3);
    const auto run = [&](const std::string& tenant, const std::string& name) {
      return queue.Run(tenant, [&done, name] { done.push_back(name); });
    };
    ASSERT_TRUE(queue.Run("busy", [&] { may_go_on.get_future().wait(); }));
    EXPECT_TRUE(run("busy", "busy 2"));
    EXPECT_TRUE(run("busy", "busy 3"));
    EXPECT_FALSE(run("busy", "busy 4"));
    EXPECT_TRUE(run("other", "other 1"));
    EXPECT_TRUE(run("other", "other 2"));
    EXPECT_TRUE(run("third", "third 1"));
    may_go_on.set_value();
  }
  EXPECT_THAT(done, ElementsAre("other 1", "third 1", "busy 2", "other 2", "busy 3"));
}

}  // namespace
}  // namespace sparseagg
