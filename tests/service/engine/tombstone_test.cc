// A deleted round's name is remembered, so that a late retry is recognised and never counts in
// another round.
#include "service/store/durable_store.h"
#include "tests/service/engine/testing.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::Sparse;
using testing::TestUpdate;

constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr milliseconds kHorizon = hours(24);

// Rounds in memory and on disk behave in the same way while the process lives.
class TombstoneTest : public ::testing::TestWithParam<Durability> {
 protected:
  TombstoneTest() {
    engine_.options.limits.retry_horizon_ms = kHorizon.count();
    engine_.options.check_interval = milliseconds(1);
  }
  absl::Status TryCreate(const std::string& id) {
    return engine_
        ->CreateRound({.round_id = id,
                       .request_id = "",
                       .spec = {.tensors = {Sparse("t", 10)}, .durability = GetParam()}})
        .status();
  }
  absl::StatusOr<Receipt> Submit(const std::string& round) {
    return engine_.Submit(TestUpdate(round, "a").Add<float>(Sparse("t", 10), {1}, {2}));
  }
  void PublishAndDelete(const std::string& id) {
    ASSERT_TRUE(TryCreate(id).ok());
    ASSERT_TRUE(Submit("rounds/" + id).ok());
    engine_.SealAndWait("rounds/" + id);
    ASSERT_TRUE(engine_->DeleteRound("rounds/" + id).ok());
  }
  std::unique_ptr<UpdateStore> Open() {
    auto store = OpenDurableStore({.directory = folder_.path(), .free_bytes_min = 0});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  testing::TemporaryFolder folder_;
  testing::TestEngine engine_{testing::MakeBackend("cpu"), [this] { return Open(); }};
};

TEST_P(TombstoneTest, ALateRetryOfACountedUpdateIsToldThatItsRoundIsOver) {
  PublishAndDelete("r");
  const absl::Status retry = Submit("rounds/r").status();
  EXPECT_THAT(retry, FailsWith(kNotFound, "ROUND_EXPIRED"));
  EXPECT_EQ(ErrorMetadata(retry)["ended"], "PUBLISHED");
  EXPECT_THAT(engine_->GetRound("rounds/r").status(), FailsWith(kNotFound, "ROUND_EXPIRED"));
  EXPECT_THAT(engine_->SealRound("rounds/r").status(), FailsWith(kNotFound, "ROUND_EXPIRED"));
  EXPECT_THAT(engine_->GetRound("rounds/other").status(), FailsWith(kNotFound, "ROUND_NOT_FOUND"));
}

TEST_P(TombstoneTest, DeletingAgainSucceedsAndDeletingWhatNeverWasDoesNot) {
  PublishAndDelete("r");
  EXPECT_TRUE(engine_->DeleteRound("rounds/r").ok());
  EXPECT_THAT(engine_->DeleteRound("rounds/never"), FailsWith(kNotFound, "ROUND_NOT_FOUND"));
}

TEST_P(TombstoneTest, TheNameIsNotGivenAgainUntilTheHorizon) {
  PublishAndDelete("r");
  const absl::Status taken = TryCreate("r");
  EXPECT_THAT(taken, FailsWith(absl::StatusCode::kAlreadyExists, "ROUND_EXISTS"));
  EXPECT_THAT(std::string(taken.message()), HasSubstr("PUBLISHED and was deleted at"));
  engine_.clock.Advance(kHorizon + std::chrono::seconds(1));
  while (!TryCreate("r").ok()) std::this_thread::yield();
  EXPECT_FALSE(Submit("rounds/r")->duplicate);
}

TEST_P(TombstoneTest, WithoutAHorizonNothingIsRemembered) {
  engine_.options.limits.retry_horizon_ms = 0;
  PublishAndDelete("r");
  EXPECT_THAT(engine_->GetRound("rounds/r").status(), FailsWith(kNotFound, "ROUND_NOT_FOUND"));
  EXPECT_TRUE(TryCreate("r").ok());
}

INSTANTIATE_TEST_SUITE_P(Durabilities, TombstoneTest,
                         ::testing::Values(Durability::kMemory, Durability::kDurable));

using DurableTombstoneTest = TombstoneTest;

TEST_P(DurableTombstoneTest, TheNameIsRememberedOverARestartAndForgottenAfterTheHorizon) {
  PublishAndDelete("r");
  ASSERT_TRUE(TryCreate("aborted").ok());
  ASSERT_TRUE(engine_->AbortRound("rounds/aborted").ok());
  ASSERT_TRUE(engine_->DeleteRound("rounds/aborted").ok());
  ASSERT_TRUE(engine_.Restart().ok());
  EXPECT_THAT(Submit("rounds/r").status(), FailsWith(kNotFound, "ROUND_EXPIRED"));
  EXPECT_EQ(ErrorMetadata(engine_->GetRound("rounds/aborted").status())["ended"], "ABORTED");
  EXPECT_FALSE(TryCreate("r").ok());
  engine_.clock.Advance(kHorizon + std::chrono::seconds(1));
  while (!TryCreate("r").ok()) std::this_thread::yield();
  engine_->Drain();
  ASSERT_TRUE(engine_.Restart().ok());
  EXPECT_EQ(engine_->GetRound("rounds/r")->state, RoundState::kOpen);
  EXPECT_TRUE(engine_.store().Tombstones().empty());
}

INSTANTIATE_TEST_SUITE_P(Durable, DurableTombstoneTest, ::testing::Values(Durability::kDurable));

}  // namespace
}  // namespace sparseagg
