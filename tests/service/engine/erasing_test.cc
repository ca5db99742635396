// While the disk is being erased: nobody waits for that but who asked for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  // In a file of its own.
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
  absl::Status found;
  absl::Status again;
  while_erasing_ = [&] {
    found = engine_->GetRound(kRound).status();
    again = engine_->DeleteRound(kRound);
  };
  engine_.SealAndWait(kRound);
  ASSERT_TRUE(engine_->DeleteRound(kRound).ok());
  EXPECT_EQ(ErrorReason(found), "ROUND_EXPIRED");
  EXPECT_TRUE(again.ok()) << again;
}

}  // namespace
}  // namespace sparseagg
