// One tensor of one round on a GPU: collects updates into batches, uploads them while others are
// staged, and leaves the reductions to the device thread. While one batch is reduced, the next one
// is uploaded.
//
//   Stage -> decode -> Accumulate -> batch -> upload (copy engine) -> reduction (device thread)
#ifndef SPARSEAGG_CUDA_AGGREGATOR_H_
#define SPARSEAGG_CUDA_AGGREGATOR_H_

#include <cstdint>
#include <functional>
#include <future>
#include <memory>

#include "cuda/device/gpu.h"
#include "cuda/device_reduction.h"
#include "sparse/backend.h"

namespace sparseagg::gpu {

class CudaAggregator : public Aggregator {
 public:
  // `gpu` must outlive it.
  CudaAggregator(Gpu& gpu, const BackendInfo& info, const Plan& plan);
  ~CudaAggregator() override;

  absl::StatusOr<StagedUpdate> Stage(uint64_t nnz) const override;
  absl::Status Accumulate(StagedUpdate update, float weight) override;
  absl::Status Merge(const Partial& partial) override;
  // Copies the state of another CudaAggregator from its device to this one.
  absl::Status Absorb(Aggregator& aggregator) override;
  absl::Status Flush() override { return StartFold(); }
  absl::StatusOr<Partial> Snapshot() override;
  uint64_t memory_bytes() const override;
  PlanReport plan_report() const override;
  absl::StatusOr<Aggregate> Report() && override;

 private:
  // What the device thread works on. It belongs to the tasks, too: one that hangs outlives the
  // aggregator.
  struct Work;

  std::future<absl::Status> Post(std::function<void(Work&)> f);
  // Runs f on the device thread and waits for it; f may outlive the call when the device hangs.
  absl::Status OnDevice(std::function<void(Work&)> f);
  // The batch; another one takes its place.
  std::shared_ptr<Batch> TakeBatch();
  // Hands the batch over; waits for the one before.
  absl::Status StartFold();
  // Waits for the batch that is being reduced.
  absl::Status FinishFold();
  absl::Status FoldAll();

  Gpu& gpu_;
  const ReduceSpec spec_;
  const std::shared_ptr<Work> work_;
  uint64_t contributors_ = 0;
  uint64_t addends_ = 0;
  WideInteger total_weight_;
  std::unique_ptr<Batch> batch_;    // that updates are added to
  uint64_t folding_bytes_ = 0;      // of the batch that is being reduced
  std::future<absl::Status> fold_;  // of it
  absl::Status failed_;             // the first error of a reduction: the state is not whole
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_AGGREGATOR_H_
