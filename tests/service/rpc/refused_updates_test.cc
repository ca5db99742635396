#include "service/rpc/wire/refused_updates.h"

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

TEST(RefusedUpdatesTest, KeepsTheBeginningOfIdsThatNoUpdateHas) {
  RefusedUpdates refused;
  for (const size_t length : {0, 65, 100'000}) {
    const std::string id(length, 'a');
    refused.Add(id);
    EXPECT_TRUE(refused.Contains(id));
  }
  EXPECT_FALSE(refused.Contains(std::string(64, 'a')));
  EXPECT_EQ(refused.size(), 2u) << "what is longer than an id may be is one";
}

}  // namespace
}  // namespace sparseagg
