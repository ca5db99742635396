// Other calls do not wait while data is erased from the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <future>

#include "service/store/durable_store.h"
#include "tests/service/engine/testing.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;

constexpr char kRound[] = "rounds/r";

class ErasingTest : public ::testing::Test {
 protected:
  std::unique_ptr<UpdateStore> Open() {
    const auto at = [this](Failpoint point) {
      if (point == Failpoint::kPayloadDeleted && while_erasing_) {
        std::exchange(while_erasing_, nullptr)();
      }
      return absl::OkStatus();
    };
    return *OpenDurableStore(
        {.directory = folder_.path(), .free_bytes_min = 0, .failpoints = {at}});
  }
  // The payload is long enough for a file of its own.
  absl::StatusOr<Receipt> Submit(const std::string& contributor) {
    return engine_.Submit(
        TestUpdate(kRound, contributor)
            .Add(spec_, std::vector<int64_t>(20'000, 7), std::vector<int32_t>(20'000, 1)));
  }
  void SetUp() override {
    engine_.Create(
        RoundSpec{.tensors = {spec_}, .durability = Durability::kDurable, .keep_updates = true});
    ASSERT_TRUE(Submit("a").ok());
  }

  testing::TemporaryFolder folder_;
  std::function<void()> while_erasing_;
  const TensorSpec spec_ = Sparse("t", 100, "sum", ValueType::kI32);
  TestEngine engine_{testing::MakeBackend("cpu"), [this] { return Open(); }};
};

TEST_F(ErasingTest, ALateUpdateOfAnAbortedRoundIsAnswered) {
  std::promise<absl::Status> late;
  while_erasing_ = [&] { late.set_value(Submit("b").status()); };
  ASSERT_TRUE(engine_->AbortRound(kRound).ok());
  EXPECT_EQ(ErrorReason(late.get_future().get()), "ROUND_NOT_OPEN");
}

TEST_F(ErasingTest, ADeletedRoundHasExpiredAndItsDeletionMayBeRepeated) {
  std::promise<absl::Status> found;
  std::promise<absl::Status> again;
  while_erasing_ = [&] {
    found.set_value(engine_->GetRound(kRound).status());
    again.set_value(engine_->DeleteRound(kRound));
  };
  engine_.SealAndWait(kRound);
  ASSERT_TRUE(engine_->DeleteRound(kRound).ok());
  EXPECT_EQ(ErrorReason(found.get_future().get()), "ROUND_EXPIRED");
  EXPECT_TRUE(again.get_future().get().ok());
}

// All of these calls once waited for the erasure, on threads of the server that all callers need.
TEST_F(ErasingTest, NobodyWaitsForALargeRoundThatIsErased) {
  std::promise<void> erasing;
  std::promise<void> go_on;
  while_erasing_ = [&] {
    erasing.set_value();
    go_on.get_future().wait();
  };
  engine_.SealAndWait(kRound);
  engine_.Create(RoundSpec{.tensors = {spec_}}, "memory");
  engine_.Create(RoundSpec{.tensors = {spec_}, .durability = Durability::kDurable}, "durable");
  EXPECT_TRUE(engine_->DeleteRound(kRound).ok());
  erasing.get_future().wait();
  for (const char* round : {"rounds/memory", "rounds/durable"}) {
    const auto receipt =
        engine_.Submit(TestUpdate(round, "a").Add(spec_, {7}, std::vector<int32_t>{1}));
    EXPECT_TRUE(receipt.ok()) << receipt.status();
    engine_.SealAndWait(round);
    EXPECT_TRUE(engine_->DeleteRound(round).ok());
  }
  go_on.set_value();
  engine_->Drain();
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() + "/payloads"));
}

TEST_F(ErasingTest, AnEndOfTheProcessDoesNotWaitUntilAllIsErased) {
  engine_.Create(
      RoundSpec{.tensors = {spec_}, .durability = Durability::kDurable, .keep_updates = true},
      "next");
  ASSERT_TRUE(
      engine_
          .Submit(TestUpdate("rounds/next", "a")
                      .Add(spec_, std::vector<int64_t>(20'000, 7), std::vector<int32_t>(20'000, 1)))
          .ok());
  engine_.SealAndWait(kRound);
  engine_.SealAndWait("rounds/next");
  while_erasing_ = [&] { engine_.store().StopErasing(); };
  ASSERT_TRUE(engine_->DeleteRound(kRound).ok());
  ASSERT_TRUE(engine_->DeleteRound("rounds/next").ok());
  engine_->Drain();
  EXPECT_FALSE(std::filesystem::is_empty(folder_.path() + "/payloads"));
  ASSERT_TRUE(engine_.Restart().ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() + "/payloads"));
}

}  // namespace
}  // namespace sparseagg
