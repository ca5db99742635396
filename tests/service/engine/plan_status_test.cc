// Plan, predicted and measured time in the status of a round, as the back end reports them.
#include <chrono>
#include <numeric>
#include <thread>

#include "tests/service/engine/testing.h"
#include "tests/service/timed_backend.h"
#include "tests/support/manual_executor.h"

namespace sparseagg {
namespace {

using testing::MakeBackend;
using testing::Sparse;
using testing::TestEngine;
using testing::TestUpdate;
using testing::TimedBackend;

class PlanStatusTest : public ::testing::Test {
 protected:
  absl::StatusOr<Receipt> Submit(const std::string& contributor) {
    return engine_.Submit(TestUpdate(round_, contributor)
                              .Add<float>(specs_[0], {1}, {1})
                              .Add<float>(specs_[1], {2}, {2}));
  }

  const std::vector<TensorSpec> specs_ = {Sparse("a", 10), Sparse("b", 10)};
  TestEngine engine_{std::make_unique<TimedBackend>(MakeBackend("reference"))};
  const std::string round_ = engine_.Create(specs_).name;
};

void ExpectTimes(const RoundSnapshot& round, double predicted_seconds, double seconds) {
  ASSERT_EQ(round.tensors.size(), 2u);
  for (const TensorStatus& tensor : round.tensors) {
    EXPECT_EQ(tensor.reduction.plan, "wide") << tensor.name;
    EXPECT_FALSE(tensor.reduction.reason.empty()) << tensor.name;
    EXPECT_EQ(tensor.reduction.predicted_seconds, predicted_seconds) << tensor.name;
    EXPECT_EQ(tensor.reduction.seconds, seconds) << tensor.name;
  }
}

TEST_F(PlanStatusTest, ANewRoundHasThePlanThatIsMeantAndNoTimes) {
  ExpectTimes(*engine_->GetRound(round_), 0, 0);
}

TEST_F(PlanStatusTest, AnOpenRoundHasTheTimesOfWhatIsFolded) {
  ASSERT_TRUE(Submit("x").ok());
  ASSERT_TRUE(Submit("y").ok());
  engine_->Drain();  // waits until all updates are folded
  const RoundSnapshot open = *engine_->GetRound(round_);
  EXPECT_EQ(open.state, RoundState::kOpen);
  ExpectTimes(open, 0.5, 1);
  ExpectTimes(engine_->ListRounds("", 1).at(0), 0.5, 1);
}

TEST_F(PlanStatusTest, AFoldIsNoChangeThatIsWatched) {
  const uint64_t before = engine_->GetRound(round_)->revision;
  ASSERT_TRUE(Submit("x").ok());
  engine_->Drain();
  EXPECT_EQ(engine_->GetRound(round_)->revision, before + 1) << "the update";
}

TEST_F(PlanStatusTest, APublishedRoundKeepsTheTimesWithThatOfTheReport) {
  ASSERT_TRUE(Submit("x").ok());
  engine_.SealAndWait(round_);
  ExpectTimes(*engine_->GetRound(round_), 1.25, 3.5);
  ExpectTimes(engine_.WaitUntilFinal(round_), 1.25, 3.5);  // as a watcher sees it
}

TEST_F(PlanStatusTest, AnAbortedRoundKeepsWhatItHad) {
  ASSERT_TRUE(Submit("x").ok());
  engine_->Drain();
  ASSERT_TRUE(engine_->AbortRound(round_).ok());
  ExpectTimes(*engine_->GetRound(round_), 0.25, 0.5);
}

TEST(SmallUpdates, AreFoldedTogether) {
  testing::ManualExecutor executor;
  TestEngine engine{std::make_unique<TimedBackend>(MakeBackend("reference"))};
  engine.options.executor = &executor;
  const TensorSpec spec = Sparse("a", 1 << 20);
  const std::string round = engine.Create({spec}).name;
  const auto submit = [&](const std::string& contributor, size_t entries) {
    std::vector<int64_t> rows(entries);
    std::iota(rows.begin(), rows.end(), 0);
    const std::vector<float> values(entries, 1.0f);
    return engine.Submit(TestUpdate(round, contributor).Add<float>(spec, rows, values)).ok();
  };
  const auto folded = [&] { return engine->GetRound(round)->tensors[0].reduction.seconds / 0.5; };

  ASSERT_TRUE(submit("a", 100));
  ASSERT_TRUE(submit("b", 100));
  executor.WaitUntilIdle();
  EXPECT_EQ(folded(), 0);
  executor.Advance(std::chrono::milliseconds(5));
  executor.WaitUntilIdle();
  EXPECT_EQ(folded(), 2) << "after a moment";

  ASSERT_TRUE(submit("c", 100));
  ASSERT_TRUE(submit("d", 22'000));  // of 12 bytes: more than 256 KiB
  executor.WaitUntilIdle();
  EXPECT_EQ(folded(), 4) << "without another moment";

  ASSERT_TRUE(submit("e", 100));
  ASSERT_TRUE(engine->SealRound(round).ok());
  executor.WaitUntilIdle();
  EXPECT_EQ(engine->GetRound(round)->state, RoundState::kPublished);
  EXPECT_EQ(engine->Result(round).value()->tensors[0].nnz(), 22'000u);
  executor.DropAll();
}

// TimedBackend fails the test if a reader accesses an aggregator.
TEST_F(PlanStatusTest, LookingDoesNotMeetTheThreadThatFolds) {
  {
    std::vector<std::jthread> readers;
    for (int i = 0; i < 2; ++i) {
      readers.emplace_back([&](const std::stop_token& stop) {
        double last = 0;
        while (!stop.stop_requested()) {
          const double seconds = engine_->GetRound(round_)->tensors[0].reduction.seconds;
          EXPECT_GE(seconds, last);
          last = seconds;
        }
      });
    }
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(Submit(std::to_string(i)).ok());
    engine_.SealAndWait(round_);
  }
  ExpectTimes(*engine_->GetRound(round_), 200 * 0.25 + 1, 200 * 0.5 + 3);
}

}  // namespace
}  // namespace sparseagg
