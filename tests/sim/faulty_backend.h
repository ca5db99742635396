// A back end that fails on demand: memory runs out for an update, or the device fails in the middle
// of a reduction with `failure`. The reference back end computes its results.
#ifndef SPARSEAGG_TESTS_SIM_FAULTY_BACKEND_H_
#define SPARSEAGG_TESTS_SIM_FAULTY_BACKEND_H_

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/status.h"
#include "sparse/backend.h"
#include "sparse/reference_backend.h"

namespace sparseagg::sim {

// Thread-compatible; the flags are thread-safe.
class FaultyBackend : public Backend {
 public:
  std::atomic<bool> stage_fails = false;
  std::atomic<bool> device_fails = false;
  absl::Status failure =
      MakeError(absl::StatusCode::kInternal, "DEVICE_LOST", "the device does not answer");
  std::atomic<int> accumulated = 0;  // updates of a tensor that were accumulated so far
  // Tensors whose reduction failed.
  std::set<std::string> lost;

  const BackendInfo& info() const override { return reference_->info(); }

  absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) override {
    SPARSEAGG_ASSIGN_OR_RETURN(auto aggregator, reference_->NewAggregator(plan));
    return std::make_unique<FaultyAggregator>(*this, plan.spec.name, std::move(aggregator));
  }

 private:
  class FaultyAggregator : public Aggregator {
   public:
    FaultyAggregator(FaultyBackend& device, std::string tensor,
                     std::unique_ptr<Aggregator> aggregator)
        : device_(device), tensor_(std::move(tensor)), aggregator_(std::move(aggregator)) {}

    absl::StatusOr<StagedUpdate> Stage(uint64_t nnz) const override {
      if (device_.stage_fails) {
        return MakeError(absl::StatusCode::kResourceExhausted, "BACKEND_FULL", "no memory");
      }
      return aggregator_->Stage(nnz);
    }
    absl::Status Accumulate(StagedUpdate update, float weight) override {
      SPARSEAGG_RETURN_IF_ERROR(Work());
      SPARSEAGG_RETURN_IF_ERROR(aggregator_->Accumulate(std::move(update), weight));
      ++device_.accumulated;
      device_.accumulated.notify_all();
      return absl::OkStatus();
    }
    absl::Status Merge(Partial partial) override { return aggregator_->Merge(std::move(partial)); }
    absl::StatusOr<Partial> Snapshot() override { return aggregator_->Snapshot(); }
    uint64_t memory_bytes() const override { return aggregator_->memory_bytes(); }
    PlanReport plan_report() const override { return aggregator_->plan_report(); }
    absl::StatusOr<Aggregate> Report() && override {
      SPARSEAGG_RETURN_IF_ERROR(Work());
      return std::move(*aggregator_).Report();
    }

   private:
    absl::Status Work() {
      if (!device_.device_fails) return absl::OkStatus();
      device_.lost.insert(tensor_);
      return device_.failure;
    }

    FaultyBackend& device_;
    const std::string tensor_;
    const std::unique_ptr<Aggregator> aggregator_;
  };

  const std::unique_ptr<Backend> reference_ = MakeReferenceBackend({}).value();
};

}  // namespace sparseagg::sim

#endif  // SPARSEAGG_TESTS_SIM_FAULTY_BACKEND_H_
