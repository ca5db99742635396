// A durable round that fails for lack of memory keeps its acknowledged updates, and the next start
// restores it. A round whose updates have no result is aborted.
#include <atomic>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "service/store/durable_store.h"
#include "tests/service/engine/testing.h"
#include "tests/sim/faulty_backend.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using ::testing::HasSubstr;
using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;
using testing::Values;

constexpr char kRound[] = "rounds/r";

std::unique_ptr<sim::FaultyBackend> MakeScarceBackend() {
  auto backend = std::make_unique<sim::FaultyBackend>();
  backend->failure =
      MakeError(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY", "there is no memory");
  return backend;
}

class FailureTest : public ::testing::Test {
 protected:
  std::unique_ptr<UpdateStore> Open() {
    auto store = OpenDurableStore({.directory = folder_.path(), .free_bytes_min = 0});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  void Create(Durability durability = Durability::kDurable) {
    engine_.Create(RoundSpec{.tensors = {spec_}, .durability = durability});
  }
  absl::StatusOr<Receipt> Submit(const std::string& contributor, int32_t value,
                                 size_t entries = 1) {
    return engine_.Submit(
        TestUpdate(kRound, contributor)
            .Add(spec_, std::vector<int64_t>(entries, 7), std::vector<int32_t>(entries, value)));
  }
  std::string ResultAfterARestart() {
    EXPECT_TRUE(engine_.Restart().ok());
    const auto again = Submit("a", 1);
    EXPECT_TRUE(again.ok() && again->duplicate) << again.status();
    const RoundSnapshot round = *engine_->GetRound(kRound);
    const auto result = round.state == RoundState::kOpen
                            ? engine_.SealAndWait(kRound)
                            : (engine_.WaitUntilFinal(kRound), *engine_->Result(kRound));
    return absl::StrCat(result->manifest.contributors, " contributors, ",
                        Values<int32_t>(result->tensors[0])[0]);
  }
  bool NoPayloadIsLeft() const { return std::filesystem::is_empty(folder_.path() + "/payloads"); }

  testing::TemporaryFolder folder_;
  const TensorSpec spec_ = Sparse("t", 100, "sum", ValueType::kI32);
  std::unique_ptr<sim::FaultyBackend> backend_ = MakeScarceBackend();
  std::atomic<bool>& scarce_ = backend_->device_fails;
  std::atomic<int>& accumulated_ = backend_->accumulated;
  TestEngine engine_{std::move(backend_), [this] { return Open(); }};
};

TEST_F(FailureTest, AFoldWithoutMemoryLosesNothingAcknowledged) {
  Create();
  ASSERT_TRUE(Submit("a", 1).ok());
  accumulated_.wait(0);  // otherwise the round might fail before the second update arrives
  scarce_ = true;
  ASSERT_TRUE(Submit("b", 2, 20'000).ok());  // large enough for a file
  const RoundSnapshot failed = engine_.WaitUntilFinal(kRound);
  EXPECT_EQ(failed.state, RoundState::kAborted);
  EXPECT_THAT(failed.failure, HasSubstr("there is no memory; its updates are kept"));
  engine_->Drain();  // erasures, if any, are done
  scarce_ = false;
  EXPECT_EQ(ResultAfterARestart(), "2 contributors, 40001");
}

TEST_F(FailureTest, AStartWithoutMemoryForARoundKeepsItsUpdatesForTheNext) {
  Create();
  ASSERT_TRUE(Submit("a", 1).ok());
  ASSERT_TRUE(Submit("b", 2).ok());
  engine_->Drain();
  scarce_ = true;
  const absl::Status started = engine_.Restart();
  ASSERT_TRUE(started.ok()) << started;
  const RoundSnapshot failed = *engine_->GetRound(kRound);
  EXPECT_EQ(failed.state, RoundState::kAborted);
  EXPECT_THAT(failed.failure, HasSubstr("there is no memory; its updates are kept"));
  scarce_ = false;
  EXPECT_EQ(ResultAfterARestart(), "2 contributors, 3");
}

TEST_F(FailureTest, AResultWithoutMemoryIsMadeAfterARestart) {
  Create();
  ASSERT_TRUE(Submit("a", 1).ok());
  ASSERT_TRUE(Submit("b", 2).ok());
  engine_.WaitFor(kRound, [](const RoundSnapshot& round) { return round.contributors == 2; });
  scarce_ = true;
  ASSERT_TRUE(engine_->SealRound(kRound).ok());
  EXPECT_EQ(engine_.WaitUntilFinal(kRound).state, RoundState::kAborted);
  engine_->Drain();
  scarce_ = false;
  EXPECT_EQ(ResultAfterARestart(), "2 contributors, 3");
}

TEST_F(FailureTest, WhatIsKeptGoesWithTheRound) {
  Create();
  scarce_ = true;
  ASSERT_TRUE(Submit("a", 1, 20'000).ok());
  engine_.WaitUntilFinal(kRound);
  EXPECT_FALSE(NoPayloadIsLeft());
  ASSERT_TRUE(engine_->DeleteRound(kRound).ok());
  engine_->Drain();
  EXPECT_TRUE(NoPayloadIsLeft());
  ASSERT_TRUE(engine_.Restart().ok());
  EXPECT_TRUE(engine_->ListRounds("", 10).empty());
}

TEST_F(FailureTest, UpdatesWithoutAResultAreErased) {
  Create();
  ASSERT_TRUE(Submit("a", 2'000'000'000, 20'000).ok());  // beyond an int32
  ASSERT_TRUE(engine_->SealRound(kRound).ok());
  const RoundSnapshot failed = engine_.WaitUntilFinal(kRound);
  EXPECT_EQ(failed.state, RoundState::kAborted);
  EXPECT_THAT(failed.failure, ::testing::Not(HasSubstr("kept")));
  engine_->Drain();
  EXPECT_TRUE(NoPayloadIsLeft());
  ASSERT_TRUE(engine_.Restart().ok());
  EXPECT_EQ(engine_->GetRound(kRound)->state, RoundState::kAborted);
}

TEST_F(FailureTest, ARoundInMemoryIsOver) {
  Create(Durability::kMemory);
  scarce_ = true;
  ASSERT_TRUE(Submit("a", 1).ok());
  const RoundSnapshot failed = engine_.WaitUntilFinal(kRound);
  EXPECT_EQ(failed.state, RoundState::kAborted);
  EXPECT_EQ(failed.failure, "there is no memory");
}

}  // namespace
}  // namespace sparseagg
