#include "service/rpc/refused_updates.h"

#include <gtest/gtest.h>

#include <string>

namespace sparseagg {
namespace {

TEST(RefusedUpdatesTest, KnowsAnIdUntilItIsBegunAgain) {
  RefusedUpdates refused;
  refused.Add("u");
  EXPECT_TRUE(refused.Contains("u"));
  EXPECT_FALSE(refused.Contains("v"));
  refused.Remove("u");
  EXPECT_FALSE(refused.Contains("u"));
}

TEST(RefusedUpdatesTest, StaysSmallWhateverIsRefused) {
  RefusedUpdates refused;
  for (size_t i = 0; i < 3 * RefusedUpdates::kMax; ++i) {
    refused.Add("u" + std::to_string(i));
    EXPECT_TRUE(refused.Contains("u" + std::to_string(i)));
    EXPECT_LE(refused.size(), RefusedUpdates::kMax);
  }
}

TEST(RefusedUpdatesTest, KeepsNoIdThatNoUpdateHas) {
  RefusedUpdates refused;
  refused.Add(std::string(64, 'a'));
  EXPECT_EQ(refused.size(), 1u);
  refused.Add(std::string(65, 'a'));
  refused.Add("not an id");
  refused.Add("");
  EXPECT_EQ(refused.size(), 1u);
}

}  // namespace
}  // namespace sparseagg
