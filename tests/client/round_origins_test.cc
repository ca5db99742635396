#include "client/transport/round_origins.h"

#include "base/status.h"
#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::HasError;

const absl::Status kNotFound =
    MakeError(absl::StatusCode::kNotFound, "ROUND_NOT_FOUND", "there is no round \"r\"");

TEST(RoundOriginsTest, ARoundInMemoryIsLostWithItsEpoch) {
  RoundOrigins origins;
  origins.Record("rounds/r", {Durability::kMemory, {"store", 1}});
  const RoundOrigin origin = origins.Find("rounds/r").value();
  EXPECT_TRUE(
      HasError(ExplainNotFound(kNotFound, origin, {"store", 2}), "ROUND_LOST", "started again"));
  EXPECT_EQ(ExplainNotFound(kNotFound, origin, {"store", 1}), kNotFound);
}

TEST(RoundOriginsTest, ARoundThatWasCreatedAgainIsNotLostWithTheFirstOne) {
  RoundOrigins origins;
  origins.Record("rounds/r", {Durability::kMemory, {"store", 1}});
  origins.Record("rounds/r", {Durability::kMemory, {"store", 2}});
  // Deleted since, in the same epoch of the server.
  EXPECT_EQ(ExplainNotFound(kNotFound, origins.Find("rounds/r").value(), {"store", 2}), kNotFound);
}

TEST(RoundOriginsTest, ADurableRoundIsLostWithItsStoreHoweverOftenThatWasStarted) {
  const RoundOrigin origin = {Durability::kDurable, {"store", 2}};
  for (const uint64_t epoch : {1u, 2u, 3u}) {
    EXPECT_TRUE(HasError(ExplainNotFound(kNotFound, origin, {"other", epoch}), "ROUND_LOST",
                         "was in store store; the server's data directory is other now"));
  }
  EXPECT_EQ(ExplainNotFound(kNotFound, origin, {"store", 3}), kNotFound);
}

}  // namespace
}  // namespace sparseagg::client
