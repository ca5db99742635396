// A back end that tells made-up times of its reductions, so that tests can compare them with ==:
// each update that is folded in is predicted to take 0.25 s and takes 0.5 s, and the report takes
// 2 s more than its predicted 1 s. Everything else is done by another back end.
//
// It fails the test when an aggregator is used by two threads at a time.
#ifndef SPARSEAGG_TESTS_SERVICE_TIMED_BACKEND_H_
#define SPARSEAGG_TESTS_SERVICE_TIMED_BACKEND_H_

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>

#include "base/status.h"
#include "sparse/backend.h"

namespace sparseagg::testing {

class TimedAggregator : public Aggregator {
 public:
  explicit TimedAggregator(std::unique_ptr<Aggregator> inner) : inner_(std::move(inner)) {}

  absl::StatusOr<StagedUpdate> Stage(uint64_t nnz) const override { return inner_->Stage(nnz); }
  absl::Status Accumulate(StagedUpdate update, float weight) override {
    const Use use(*this);
    predicted_seconds_ += 0.25;
    seconds_ += 0.5;
    return inner_->Accumulate(std::move(update), weight);
  }
  absl::Status Merge(Partial partial) override {
    const Use use(*this);
    return inner_->Merge(std::move(partial));
  }
  absl::StatusOr<Partial> Snapshot() override {
    const Use use(*this);
    return inner_->Snapshot();
  }
  uint64_t memory_bytes() const override {
    const Use use(*this);
    return inner_->memory_bytes();
  }
  PlanReport plan_report() const override {
    const Use use(*this);
    PlanReport report = inner_->plan_report();
    report.predicted_seconds = predicted_seconds_;
    report.seconds = seconds_;
    return report;
  }
  absl::StatusOr<Aggregate> Report() && override {
    const Use use(*this);
    predicted_seconds_ += 1;
    seconds_ += 3;
    return std::move(*inner_).Report();
  }

 private:
  class Use {
   public:
    explicit Use(const TimedAggregator& aggregator) : in_use_(aggregator.in_use_) {
      EXPECT_FALSE(in_use_.exchange(true)) << "two threads use an aggregator";
    }
    ~Use() { in_use_ = false; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    std::atomic<bool>& in_use_;
  };

  const std::unique_ptr<Aggregator> inner_;
  double predicted_seconds_ = 0;
  double seconds_ = 0;
  mutable std::atomic<bool> in_use_ = false;
};

class TimedBackend : public Backend {
 public:
  explicit TimedBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  const BackendInfo& info() const override { return inner_->info(); }
  absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) override {
    SPARSEAGG_ASSIGN_OR_RETURN(auto aggregator, inner_->NewAggregator(plan));
    return std::make_unique<TimedAggregator>(std::move(aggregator));
  }

 private:
  const std::unique_ptr<Backend> inner_;
};

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SERVICE_TIMED_BACKEND_H_
