#include "sparse/failover_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "sparse/reference_backend.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

using testing::Difference;
using testing::MakeSpec;

// Makes a call of an aggregator fail after a number of successful ones. The failing call has
// already done its work, and all calls after it fail, too.
struct Fault {
  int calls_left = -1;  // < 0: never
  absl::Status status =
      MakeError(absl::StatusCode::kUnavailable, "GPU_LOST", "the device fell off");
  bool lost = false;
  int snapshots = 0;

  absl::Status Next() {
    if (lost || calls_left == 0) {
      lost = true;
      return status;
    }
    if (calls_left > 0) --calls_left;
    return absl::OkStatus();
  }
};

class FaultyAggregator : public Aggregator {
 public:
  FaultyAggregator(Fault& fault, std::unique_ptr<Aggregator> aggregator)
      : fault_(fault), aggregator_(std::move(aggregator)) {}

  absl::StatusOr<StagedUpdate> Stage(uint64_t nnz) const override {
    return aggregator_->Stage(nnz);
  }
  absl::Status Accumulate(StagedUpdate update, float weight) override {
    const absl::Status status = aggregator_->Accumulate(std::move(update), weight);
    return status.ok() ? fault_.Next() : status;
  }
  absl::Status Merge(Partial partial) override {
    const absl::Status status = aggregator_->Merge(std::move(partial));
    return status.ok() ? fault_.Next() : status;
  }
  absl::StatusOr<Partial> Snapshot() override {
    ++fault_.snapshots;
    SPARSEAGG_RETURN_IF_ERROR(fault_.Next());
    return aggregator_->Snapshot();
  }
  uint64_t memory_bytes() const override { return aggregator_->memory_bytes(); }
  PlanReport plan_report() const override { return {.plan = "faulty", .reason = "a test"}; }
  absl::StatusOr<Aggregate> Report() && override {
    SPARSEAGG_RETURN_IF_ERROR(fault_.Next());
    return std::move(*aggregator_).Report();
  }

 private:
  Fault& fault_;
  std::unique_ptr<Aggregator> aggregator_;
};

class FaultyBackend : public Backend {
 public:
  explicit FaultyBackend(Fault& fault) : fault_(fault) {}
  const BackendInfo& info() const override { return reference_->info(); }
  absl::Status health() const override { return fault_.lost ? fault_.status : absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) override {
    if (fault_.lost) return fault_.status;
    auto aggregator = reference_->NewAggregator(plan);
    if (!aggregator.ok()) return aggregator.status();
    return std::make_unique<FaultyAggregator>(fault_, *std::move(aggregator));
  }

 private:
  Fault& fault_;
  const std::unique_ptr<Backend> reference_ = *MakeReferenceBackend({});
};

class FailoverTest : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> Make(uint64_t kept_bytes_min = uint64_t{1} << 30) {
    return MakeFailoverBackend(
        std::make_unique<FaultyBackend>(fault_), *MakeReferenceBackend({}),
        {.on_loss = [this](const absl::Status&) { ++losses_; }, .kept_bytes_min = kept_bytes_min});
  }

  Fault fault_;
  int losses_ = 0;
  const ReduceSpec spec_ = MakeSpec("mean_of_contributors", ValueType::kF32, 100, 2);
  const std::vector<testing::Update> updates_ =
      testing::MakeUpdates(spec_,
                           {.nnz = 50,
                            .contributors = 8,
                            .distribution = testing::Distribution::kZipf,
                            .values = testing::Values::kHostile},
                           4);
  const std::unique_ptr<Backend> reference_ = *MakeReferenceBackend({});
  const absl::StatusOr<Aggregate> expected_ = testing::Reduce(*reference_, spec_, updates_);
};

TEST_F(FailoverTest, AFaultAtAnyCallChangesNoBit) {
  for (const uint64_t kept_bytes_min : {uint64_t{1}, uint64_t{2000}, uint64_t{1} << 30}) {
    for (int call = 0; call < 20; ++call) {
      fault_ = {.calls_left = call};
      const auto backend = Make(kept_bytes_min);
      EXPECT_EQ(Difference(expected_, testing::Reduce(*backend, spec_, updates_)), "")
          << "call " << call << ", keeps " << kept_bytes_min;
    }
  }
}

TEST_F(FailoverTest, MemoryThatRunsOutIsNoLoss) {
  fault_.calls_left = 3;
  fault_.status = MakeError(absl::StatusCode::kResourceExhausted, "GPU_OUT_OF_MEMORY", "full");
  EXPECT_EQ(Difference(expected_, testing::Reduce(*Make(), spec_, updates_)), "");
}

TEST_F(FailoverTest, OtherErrorsAreReturned) {
  fault_.calls_left = 3;
  fault_.status = MakeError(absl::StatusCode::kResourceExhausted, "TOO_MANY_ENTRIES", "too many");
  EXPECT_EQ(ErrorReason(testing::Reduce(*Make(), spec_, updates_).status()), "TOO_MANY_ENTRIES");
}

// The update has been counted by then, so that a later result would have it once or never.
TEST_F(FailoverTest, AnErrorOfTheStateIsReturnedByEveryLaterCall) {
  fault_.calls_left = 1;
  fault_.status = MakeError(absl::StatusCode::kInternal, "NOT_EXACT", "the counts differ");
  const auto backend = Make(/*kept_bytes_min=*/1);
  const auto aggregator = testing::NewAggregator(*backend, spec_);
  const auto accumulate = [&] {
    return aggregator->Accumulate(testing::StageCopy(*aggregator, updates_[0]), 1.0f);
  };
  EXPECT_EQ(ErrorReason(accumulate()), "NOT_EXACT");
  fault_ = {};  // the first back end works again
  EXPECT_EQ(ErrorReason(accumulate()), "NOT_EXACT");
  EXPECT_EQ(ErrorReason(aggregator->Snapshot().status()), "NOT_EXACT");
  EXPECT_EQ(ErrorReason(std::move(*aggregator).Report().status()), "NOT_EXACT");
}

TEST_F(FailoverTest, ALossIsReportedOnceAndVisibleInHealthAndReason) {
  fault_.calls_left = 3;
  const auto backend = Make();
  const auto aggregator = testing::NewAggregator(*backend, spec_);
  EXPECT_TRUE(backend->health().ok());
  EXPECT_EQ(aggregator->plan_report().plan, "faulty");
  for (const testing::Update& update : updates_) {
    ASSERT_TRUE(
        aggregator->Accumulate(testing::StageCopy(*aggregator, update), update.weight).ok());
  }
  EXPECT_EQ(ErrorReason(backend->health()), "GPU_LOST");
  EXPECT_EQ(losses_, 1);
  EXPECT_THAT(aggregator->plan_report().reason, ::testing::HasSubstr("the device fell off"));
  EXPECT_EQ(Difference(expected_, std::move(*aggregator).Report()), "");
  EXPECT_EQ(Difference(expected_, testing::Reduce(*backend, spec_, updates_)), "");
  EXPECT_EQ(losses_, 1);
}

TEST_F(FailoverTest, KeepsAsMuchAsItMayAndThenFetchesTheState) {
  testing::Reduce(*Make(), spec_, updates_).IgnoreError();
  EXPECT_EQ(fault_.snapshots, 0);
  testing::Reduce(*Make(1), spec_, updates_).IgnoreError();
  EXPECT_GE(fault_.snapshots, 1);
}

TEST_F(FailoverTest, PartialAggregatesSurviveToo) {
  const auto half = testing::NewAggregator(*reference_, spec_);
  for (size_t u = 0; u < 4; ++u) {
    ASSERT_TRUE(half->Accumulate(testing::StageCopy(*half, updates_[u]), updates_[u].weight).ok());
  }
  const Partial partial = *half->Snapshot();
  for (int call = 0; call < 8; ++call) {
    fault_ = {.calls_left = call};
    const auto backend = Make();
    const auto whole = testing::NewAggregator(*backend, spec_);
    for (size_t u = 4; u < 8; ++u) {
      if (u == 6) {
        ASSERT_TRUE(whole->Merge(partial).ok());
      }
      ASSERT_TRUE(
          whole->Accumulate(testing::StageCopy(*whole, updates_[u]), updates_[u].weight).ok());
    }
    EXPECT_EQ(Difference(expected_, std::move(*whole).Report()), "") << call;
  }
}

}  // namespace
}  // namespace sparseagg
