#include "client/transport/births.h"

#include "base/status.h"
#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::HasError;

const absl::Status kNotFound =
    MakeError(absl::StatusCode::kNotFound, "ROUND_NOT_FOUND", "there is no round \"r\"");

TEST(BirthsTest, ARoundInMemoryIsLostWithItsEpoch) {
  Births births;
  births.Note("rounds/r", {Durability::kMemory, {"store", 1}});
  const Birth birth = births.Find("rounds/r").value();
  EXPECT_TRUE(HasError(WhyNotFound(kNotFound, birth, {"store", 2}), "ROUND_LOST", "started again"));
  EXPECT_EQ(WhyNotFound(kNotFound, birth, {"store", 1}), kNotFound);
}

TEST(BirthsTest, ARoundThatWasCreatedAgainIsNotLostWithTheFirstOne) {
  Births births;
  births.Note("rounds/r", {Durability::kMemory, {"store", 1}});
  births.Note("rounds/r", {Durability::kMemory, {"store", 2}});
  // Deleted since, in the same epoch of the server.
  EXPECT_EQ(WhyNotFound(kNotFound, births.Find("rounds/r").value(), {"store", 2}), kNotFound);
}

TEST(BirthsTest, ADurableRoundIsLostWithItsStoreHoweverOftenThatWasStarted) {
  const Birth birth = {Durability::kDurable, {"store", 2}};
  for (const uint64_t epoch : {1u, 2u, 3u}) {
    EXPECT_TRUE(HasError(WhyNotFound(kNotFound, birth, {"other", epoch}), "ROUND_LOST",
                         "was in store store; the server's data directory is other now"));
  }
  EXPECT_EQ(WhyNotFound(kNotFound, birth, {"store", 3}), kNotFound);
}

}  // namespace
}  // namespace sparseagg::client
