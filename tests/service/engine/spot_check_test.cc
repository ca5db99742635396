// Rounds that are computed again before they are published (EngineOptions::verify_share): a back
// end that is wrong in one bit is detected, and its result is not published.
#include <cstddef>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "service/engine/recovery/verify.h"
#include "service/store/durable_store.h"
#include "tests/service/engine/testing.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Sparse;
using testing::TestUpdate;

constexpr char kRound[] = "rounds/r";

// The results of another back end, with a wrong last bit while `wrong` is true.
class WrongBackend : public Backend {
 public:
  explicit WrongBackend(std::shared_ptr<const bool> wrong) : wrong_(std::move(wrong)) {}

  const BackendInfo& info() const override { return inner_->info(); }
  absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) override {
    SPARSEAGG_ASSIGN_OR_RETURN(auto aggregator, inner_->NewAggregator(plan));
    return std::make_unique<WrongAggregator>(std::move(aggregator), wrong_);
  }

 private:
  class WrongAggregator : public Aggregator {
   public:
    WrongAggregator(std::unique_ptr<Aggregator> inner, std::shared_ptr<const bool> wrong)
        : inner_(std::move(inner)), wrong_(std::move(wrong)) {}
    absl::StatusOr<StagedUpdate> Stage(uint64_t nnz) const override { return inner_->Stage(nnz); }
    absl::Status Accumulate(StagedUpdate update, float weight) override {
      return inner_->Accumulate(std::move(update), weight);
    }
    absl::Status Merge(Partial partial) override { return inner_->Merge(std::move(partial)); }
    absl::StatusOr<Partial> Snapshot() override { return inner_->Snapshot(); }
    uint64_t memory_bytes() const override { return inner_->memory_bytes(); }
    PlanReport plan_report() const override { return inner_->plan_report(); }
    absl::StatusOr<Aggregate> Report() && override {
      SPARSEAGG_ASSIGN_OR_RETURN(Aggregate aggregate, std::move(*inner_).Report());
      if (*wrong_) aggregate.tensor.values.data()[0] ^= std::byte{1};
      return aggregate;
    }

   private:
    const std::unique_ptr<Aggregator> inner_;
    const std::shared_ptr<const bool> wrong_;
  };

  const std::unique_ptr<Backend> inner_ = testing::MakeBackend("cpu");
  const std::shared_ptr<const bool> wrong_;
};

// The reasons of verifications; "" if every bit was equal.
class Verifications : public EngineObserver {
 public:
  void OnVerification(const VerificationReport& report) override {
    const std::lock_guard lock(mutex_);
    all_.push_back(ErrorReason(report.outcome));
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> all_;
};

class SpotCheckTest : public ::testing::Test {
 protected:
  SpotCheckTest() { engine_.options.observer = verifications_; }

  // Three updates of all rows but the first.
  void Submit(int64_t rows = 10, Durability durability = Durability::kDurable) {
    const TensorSpec spec = Sparse("t", rows);
    engine_.Create(RoundSpec{.tensors = {spec}, .durability = durability});
    std::vector<int64_t> touched(static_cast<size_t>(rows - 1));
    std::iota(touched.begin(), touched.end(), int64_t{1});
    const std::vector<float> values(touched.size(), 0.1f);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(
          engine_.Submit(TestUpdate(kRound, "c" + std::to_string(i)).Add(spec, touched, values))
              .ok());
    }
  }
  RoundSnapshot Seal() {
    EXPECT_TRUE(engine_->SealRound(kRound).ok());
    return engine_.WaitUntilFinal(kRound);
  }

  testing::TemporaryFolder folder_;
  const std::shared_ptr<bool> wrong_ = std::make_shared<bool>(false);
  const std::shared_ptr<Verifications> verifications_ = std::make_shared<Verifications>();
  testing::TestEngine engine_{
      std::make_unique<WrongBackend>(wrong_), [this] {
        return OpenDurableStore({.directory = folder_.path(), .free_bytes_min = 0}).value();
      }};
};

TEST_F(SpotCheckTest, AResultThatTheReferenceMakesTooIsPublished) {
  engine_.options.verify_share = 1;
  Submit();
  EXPECT_EQ(Seal().state, RoundState::kPublished);
  EXPECT_THAT(verifications_->all(), ElementsAre(""));
}

TEST_F(SpotCheckTest, AWrongResultIsNotPublishedAndTheUpdatesAreKept) {
  engine_.options.verify_share = 1;
  *wrong_ = true;
  Submit();
  const RoundSnapshot round = Seal();
  EXPECT_EQ(round.state, RoundState::kAborted);
  EXPECT_THAT(round.failure,
              HasSubstr("RESULT_MISMATCH: the result differs from that of the reference"));
  EXPECT_THAT(round.failure, HasSubstr("tensor \"t\", row 1: computed again"));
  EXPECT_THAT(round.failure, HasSubstr("its updates are kept"));
  EXPECT_FALSE(engine_->Result(kRound).ok());
  EXPECT_THAT(verifications_->all(), ElementsAre("RESULT_MISMATCH"));

  ASSERT_TRUE(engine_.Restart().ok());  // with a back end that is wrong in the same way
  EXPECT_EQ(engine_.WaitUntilFinal(kRound).state, RoundState::kAborted);
  *wrong_ = false;
  ASSERT_TRUE(engine_.Restart().ok());
  EXPECT_EQ(engine_.WaitUntilFinal(kRound).state, RoundState::kPublished);
  EXPECT_THAT(verifications_->all(), ElementsAre("RESULT_MISMATCH", "RESULT_MISMATCH", ""));
}

TEST_F(SpotCheckTest, WithoutAShareNothingIsComputedAgain) {
  *wrong_ = true;
  Submit();
  EXPECT_EQ(Seal().state, RoundState::kPublished);
  EXPECT_THAT(verifications_->all(), IsEmpty());
}

TEST_F(SpotCheckTest, ARoundInMemoryHasNothingToBeComputedAgainFrom) {
  engine_.options.verify_share = 1;
  Submit(10, Durability::kMemory);
  EXPECT_EQ(Seal().state, RoundState::kPublished);
  EXPECT_THAT(verifications_->all(), IsEmpty());
}

TEST_F(SpotCheckTest, ARoundThatCannotBeComputedAgainForLackOfMemoryIsPublished) {
  engine_.options.verify_share = 1;
  engine_.options.limits.aggregation_bytes_max = 200'000;
  Submit(600);  // the reference takes hundreds of bytes for each
  EXPECT_EQ(Seal().state, RoundState::kPublished);
  EXPECT_THAT(verifications_->all(), ElementsAre("AGGREGATION_FULL"));
}

TEST_F(SpotCheckTest, AnEndOfTheRoundOrOfTheServerEndsIt) {
  Submit();
  Admission memory(uint64_t{1} << 40, kAggregationBudget);
  const PublishedResult result{
      .spec = RoundSpec{.tensors = {Sparse("t", 10)}, .durability = Durability::kDurable},
      .tensors = std::vector<SparseTensor>(1)};
  EXPECT_EQ(VerifyUnpublished(engine_.store(), kRound, result, memory, [] { return true; }).code(),
            absl::StatusCode::kCancelled);
}

TEST(IsChosenTest, TakesAboutThatShareOfTheRoundsAndTheSameOnesAgain) {
  const auto time = std::chrono::system_clock::from_time_t(1'700'000'000);
  int chosen = 0;
  int chosen_later = 0;
  int both = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string round = "rounds/" + std::to_string(i);
    EXPECT_FALSE(IsSampled(0, round, time));
    EXPECT_TRUE(IsSampled(1, round, time));
    const bool now = IsSampled(0.1, round, time);
    const bool later = IsSampled(0.1, round, time + std::chrono::milliseconds(1));
    EXPECT_EQ(now, IsSampled(0.1, round, time + std::chrono::nanoseconds(1))) << "as it is stored";
    chosen += now ? 1 : 0;
    chosen_later += later ? 1 : 0;
    both += now && later ? 1 : 0;
  }
  EXPECT_NEAR(chosen, 1000, 200);
  EXPECT_NEAR(chosen_later, 1000, 200);
  EXPECT_NEAR(both, 100, 80) << "another round of the same name";
}

}  // namespace
}  // namespace sparseagg
