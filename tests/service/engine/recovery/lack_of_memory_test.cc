// A start that has no memory for a round: it is aborted, and its data kept. Allocations above a
// limit fail.

#include <filesystem>
#include <limits>

#include "service/store/durable_store.h"
#include "tests/service/engine/testing.h"
#include "tests/support/allocation_limit.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;
using testing::Values;

constexpr uint64_t kRows = 50'000;  // of an update that is large enough for a file

class LackOfMemoryTest : public ::testing::Test {
 protected:
  // Makes a round with one update, stored in a file.
  void MakeRound() {
    const TensorSpec spec = Sparse("t", kRows);
    engine_.Create(RoundSpec{.tensors = {spec}, .durability = Durability::kDurable});
    std::vector<int64_t> rows(kRows);
    for (size_t i = 0; i < kRows; ++i) rows[i] = static_cast<int64_t>(i);
    const auto receipt = engine_.Submit(
        TestUpdate("rounds/r", "a").Add(spec, rows, std::vector<float>(kRows, 1.5f)));
    ASSERT_TRUE(receipt.ok()) << receipt.status();
  }
  // Starts the engine again while the store's only file does not fit in memory.
  absl::Status RestartWithoutMemory() {
    const auto files = std::filesystem::directory_iterator(folder_.path() + "/payloads");
    const size_t bytes = std::filesystem::file_size(files->path());
    EXPECT_GT(bytes, kRows * sizeof(float));
    testing::allocation_bytes_max = bytes - 1;
    absl::Status recovered = engine_.Restart();
    testing::allocation_bytes_max = std::numeric_limits<size_t>::max();
    return recovered;
  }

  testing::TemporaryFolder folder_;
  TestEngine engine_{testing::MakeBackend("cpu"), [this] {
                       return *OpenDurableStore({.directory = folder_.path(), .free_bytes_min = 0});
                     }};
};

TEST_F(LackOfMemoryTest, AnUpdateThatDoesNotFitInMemoryIsKept) {
  MakeRound();
  const absl::Status recovered = RestartWithoutMemory();
  ASSERT_TRUE(recovered.ok()) << recovered;
  const RoundSnapshot scarce = *engine_->GetRound("rounds/r");
  EXPECT_EQ(scarce.state, RoundState::kAborted);
  EXPECT_THAT(scarce.failure, ::testing::HasSubstr("its updates are kept"));
  EXPECT_TRUE(scarce.may_open_again);

  ASSERT_TRUE(engine_.Restart().ok());
  EXPECT_EQ(engine_->GetRound("rounds/r")->state, RoundState::kOpen);
  EXPECT_EQ(Values<float>(engine_.SealAndWait("rounds/r")->tensors[0]),
            std::vector<float>(kRows, 1.5f));
}

TEST_F(LackOfMemoryTest, ARoundThatIsAbortedMeanwhileIsNotRestored) {
  MakeRound();
  ASSERT_TRUE(RestartWithoutMemory().ok());
  EXPECT_TRUE(engine_->GetRound("rounds/r")->may_be_restored);
  ASSERT_TRUE(engine_->AbortRound("rounds/r").ok());
  EXPECT_FALSE(engine_->GetRound("rounds/r")->may_be_restored);
  EXPECT_FALSE(engine_->GetRound("rounds/r")->may_open_again);

  ASSERT_TRUE(engine_.Restart().ok());
  EXPECT_EQ(engine_->GetRound("rounds/r")->state, RoundState::kAborted);
}

TEST_F(LackOfMemoryTest, AResultThatDoesNotFitInMemoryIsKept) {
  MakeRound();
  const auto before = engine_.SealAndWait("rounds/r");
  engine_->Drain();
  const absl::Status recovered = RestartWithoutMemory();
  ASSERT_TRUE(recovered.ok()) << recovered;
  EXPECT_EQ(engine_->GetRound("rounds/r")->state, RoundState::kAborted);

  ASSERT_TRUE(engine_.Restart().ok());
  EXPECT_EQ(engine_->Result("rounds/r").value()->tensors, before->tensors);
}

}  // namespace
}  // namespace sparseagg
