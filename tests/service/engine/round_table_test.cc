// Names of erased rounds are bounded, for each tenant and in all, and never forgotten early.
#include "service/engine/round_table.h"

#include "tests/service/engine/testing.h"

namespace sparseagg {
namespace {

using testing::FailsWith;

class RoundNamesTest : public ::testing::Test {
 protected:
  // Erased rounds of tenant acme.
  void Remember(RoundTable& table, uint64_t names) {
    for (uint64_t i = 0; i < names; ++i) {
      table.Remember({.round = "tenants/acme/rounds/r" + std::to_string(i), .erased = erased_});
    }
  }
  static absl::Status Create(const RoundTable& table, const std::string& tenant,
                             uint64_t tenant_rounds_max) {
    CreateRoundArgs args;
    args.round_id = "new";
    args.tenant = tenant;
    args.tenant_rounds_max = tenant_rounds_max;
    return table.FindRequest(args).status();
  }

  const std::chrono::system_clock::time_point erased_ = std::chrono::system_clock::now();
};

TEST_F(RoundNamesTest, WhenATenantHasItsMostOthersGoOn) {
  RoundTable table(1000);
  const uint64_t most = ErasedNamesMax(1);
  Remember(table, most - 1);
  EXPECT_TRUE(Create(table, "acme", 1).ok());
  Remember(table, most);  // all but one again
  const absl::Status full = Create(table, "acme", 1);
  EXPECT_THAT(full, FailsWith(absl::StatusCode::kResourceExhausted, "ROUND_NAMES_FULL"));
  EXPECT_GT(RetryAfterMs(full), 0u);
  EXPECT_TRUE(Create(table, "other", 1).ok());
  EXPECT_FALSE(table.ForgetErasedBefore(erased_));
  EXPECT_FALSE(Create(table, "acme", 1).ok());
  EXPECT_TRUE(table.ForgetErasedBefore(erased_ + std::chrono::seconds(1)));
  EXPECT_TRUE(Create(table, "acme", 1).ok());
}

TEST_F(RoundNamesTest, AreForgottenByTheTimeOfTheLastErasureOfAName) {
  RoundTable table(1000);
  const auto after = [&](int seconds) { return erased_ + std::chrono::seconds(seconds); };
  const std::string kept = "rounds/again";
  const std::vector<std::pair<std::string, int>> erasures = {
      {kept, 1}, {"rounds/late", 9}, {"rounds/early", 2}, {"rounds/same", 2}, {kept, 5}};
  for (const auto& [name, seconds] : erasures) {
    table.Remember({.round = name, .erased = after(seconds)});
  }
  EXPECT_FALSE(table.ForgetErasedBefore(after(2)));
  EXPECT_TRUE(table.ForgetErasedBefore(after(3)));
  EXPECT_FALSE(table.Contains("rounds/early"));
  EXPECT_FALSE(table.Contains("rounds/same"));
  EXPECT_TRUE(table.Contains(kept));
  EXPECT_TRUE(table.ForgetErasedBefore(after(6)));
  EXPECT_FALSE(table.Contains(kept));
  EXPECT_TRUE(table.Contains("rounds/late"));
}

// Every check once visited all names, while no round could be found.
TEST_F(RoundNamesTest, LookingForOldNamesDoesNotLookAtTheOthers) {
  RoundTable table(1);
  const uint64_t names = ErasedNamesMax(1);
  Remember(table, names);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 10'000; ++i) EXPECT_FALSE(table.ForgetErasedBefore(erased_));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  // Visiting one name takes at least 1 ns; all checks together now take less than 0.1 s.
  EXPECT_LT(seconds, 10'000 * static_cast<double>(names) * 1e-9) << names << " names";
}

TEST_F(RoundNamesTest, AllTenantsTogetherHaveAMost) {
  RoundTable table(1);
  Remember(table, ErasedNamesMax(1));
  EXPECT_THAT(Create(table, "other", 0),
              FailsWith(absl::StatusCode::kResourceExhausted, "ROUND_NAMES_FULL"));
}

}  // namespace
}  // namespace sparseagg
