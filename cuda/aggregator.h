// One tensor of one round on a GPU: collects updates into batches, uploads them while others are
// staged, and leaves the reductions to the device thread. While one batch is reduced, the next one
// is uploaded.
//
//   Stage -> decode -> Accumulate -> batch -> upload (copy engine) -> reduction (device thread)
#ifndef SPARSEAGG_CUDA_AGGREGATOR_H_
#define SPARSEAGG_CUDA_AGGREGATOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>

#include "cuda/context.h"
#include "cuda/device.h"
#include "cuda/device_thread.h"
#include "cuda/reduction.h"
#include "cuda/tuning.h"
#include "sparse/backend.h"

namespace sparseagg::gpu {

// What the aggregators of a back end share. `thread` is the last, so it ends first.
struct Gpu {
  Gpu(int ordinal, uint64_t budget_bytes, uint64_t pinned_bytes)
      : device(ordinal, budget_bytes), context(device.pool(), pinned_bytes) {}

  Device device;
  Context context;
  DeviceThread thread;
};

class CudaAggregator : public Aggregator {
 public:
  // `gpu` and `info` must outlive it.
  CudaAggregator(Gpu& gpu, const BackendInfo& info, const Tuning& tuning, const Plan& plan);
  ~CudaAggregator() override;

  absl::StatusOr<StagedUpdate> Stage(uint64_t nnz) const override;
  absl::Status Accumulate(StagedUpdate update, float weight) override;
  absl::Status Merge(const Partial& partial) override;
  absl::StatusOr<Partial> Snapshot() override;
  uint64_t memory_bytes() const override;
  PlanReport plan_report() const override;
  absl::StatusOr<Aggregate> Report() && override;

 private:
  // Runs f() on the device thread and waits for it.
  absl::Status OnDevice(std::function<void()> f);
  // Hands the batch over; waits for the one before.
  absl::Status StartFold();
  // Waits for the batch that is being reduced.
  absl::Status FinishFold();
  absl::Status FoldAll();
  uint64_t BatchBytes() const;
  void Note(double predicted_seconds, double seconds);

  Gpu& gpu_;
  const BackendInfo& info_;
  const Tuning tuning_;
  const ReduceSpec spec_;
  Reduction reduction_;
  uint64_t contributors_ = 0;
  uint64_t addends_ = 0;
  WideInteger total_weight_;
  std::unique_ptr<Batch> batch_;    // that updates are added to
  uint64_t folding_bytes_ = 0;      // of the batch that is being reduced
  std::future<absl::Status> fold_;  // of it
  absl::Status failed_;             // the first error of a reduction: the state is not whole
  std::atomic<uint64_t> state_bytes_{0};
  mutable std::mutex report_mutex_;
  PlanReport report_;
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_AGGREGATOR_H_
