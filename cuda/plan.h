// The seam between a reduction on the device and its algorithms. A plan keeps the slots of all rows
// so far and folds batches into them.
#ifndef SPARSEAGG_CUDA_PLAN_H_
#define SPARSEAGG_CUDA_PLAN_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "cuda/kernels/batch.h"
#include "cuda/kernels/dense_state.h"
#include "cuda/kernels/finalize.h"
#include "cuda/kernels/rows/row_reduce.h"
#include "cuda/raii/queue.h"
#include "cuda/slot_run.h"

namespace sparseagg::gpu {

// One thread at a time. Members throw CudaError; after one that is out of memory the state is what
// it was.
class DeviceReducer {
 public:
  virtual ~DeviceReducer() = default;

  // Adds a batch. Where there is memory in plenty nobody waits (slot_run.h), but for Thrust.
  virtual void Fold(Queue& queue, const BatchView& batch) = 0;
  // Adds a run of the same rule, as Fold() adds a batch.
  virtual void Join(Queue& queue, SlotRun run) = 0;
  // Where the device keeps the number of the state's rows; null when the host knows it, or need
  // not.
  virtual const uint64_t* number() const { return nullptr; }
  // What was there, when everything queued was done. Does not throw that memory is out.
  virtual void SetCount(Queue&, uint64_t) {}
  // Calls f with the state as a run whose rows are counted, which may be made for it and gone after
  // it; does not change the state. Waits for the queue.
  virtual void WithState(Queue& queue, absl::FunctionRef<void(const SlotRun&)> f) = 0;
  // The same with the runs that the state is kept as, which may share rows. Takes no memory where
  // those are there.
  virtual void ForEachRun(Queue& queue, absl::FunctionRef<void(const SlotRun&)> f) {
    WithState(queue, f);
  }
  // The state as one run whose rows are counted, for another device to copy; valid until the state
  // changes or goes. Waits for the queue.
  virtual std::shared_ptr<const SlotRun> Share(Queue& queue) = 0;
  // Makes the state smaller without a loss, where it can; whether it has. Waits for the queue.
  virtual bool Compact(Queue&) { return false; }
  // Forgets everything.
  virtual void Clear() = 0;
  // Device memory that the state takes.
  virtual uint64_t bytes() const = 0;
};

// How a batch becomes a run, in the plans that keep a run.
using BatchReducer = SlotRun (*)(Queue& queue, const BatchView& batch, const SlotRule& rule);
// How a dense state becomes a run, in the plans that keep a slot for every row.
using DenseLister = SlotRun (*)(Queue& queue, const SlotRule& rule, const DenseState& state);

// How a batch that is the whole round becomes its results, in the plans that need no slots in
// memory for that. `can` says for which operators, types and rows.
struct BatchRounder {
  bool (*can)(const Finalization& finalization);
  RoundedRows (*round)(Queue& queue, const BatchView& batch, const Finalization& finalization);
};

// One of `reduce` and `list` is there.
struct DevicePlan {
  std::string_view name;
  BatchReducer reduce = nullptr;
  DenseLister list = nullptr;
  BatchRounder rounder = {nullptr, nullptr};
};

// The plans that this machine has the libraries for, one for any workload last.
std::span<const DevicePlan> DevicePlans();

// The row of that name; null where there is none.
const DevicePlan* FindDevicePlan(std::string_view name);

std::unique_ptr<DeviceReducer> MakeDeviceReducer(std::string_view name, const SlotRule& rule,
                                                 uint64_t num_rows);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_PLAN_H_
