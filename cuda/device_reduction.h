// One reduction on the device: the slots in a plan's state, what their window does not hold, and
// runs that had to leave the device. On the device thread only; members throw CudaError.
#ifndef SPARSEAGG_CUDA_DEVICE_REDUCTION_H_
#define SPARSEAGG_CUDA_DEVICE_REDUCTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "cuda/device/context.h"
#include "cuda/kernels/side.h"
#include "cuda/plan.h"
#include "sparse/backend.h"
#include "sparse/partial.h"

namespace sparseagg::gpu {

// The state of a reduction, for another device to copy. Valid as long as that reduction, while
// nothing is added there.
struct SharedState {
  std::shared_ptr<const SlotRun> run;  // null: no state yet
  int device = 0;                      // that has the run
  int32_t lsb = 0;
  std::vector<SideEntry> side;
  uint64_t addends = 0;
};

class DeviceReduction {
 public:
  // `plan` is one of DevicePlans(). `window`: that of the tensor on several devices, or null.
  DeviceReduction(ReduceSpec spec, std::string plan, Context& context,
                  std::shared_ptr<SharedWindow> window = nullptr);

  // Returns whether there is a state yet; until then another plan can be used.
  bool begun() const { return plan_ != nullptr; }
  void UsePlan(std::string plan) { plan_name_ = std::move(plan); }

  // Adds updates, and releases them. Out of memory: the state moves to the host, then the batch is
  // halved, by updates and then by rows; throws when one row is too much.
  void Fold(Batch& batch);
  // Adds a partial aggregate.
  void Join(Partial partial);
  // The state for another device. Throws Refused when a part of it is in host memory.
  SharedState Share();
  // Adds a state of another device, copied from there. After an error of memory that is out, and
  // after Refused (it has another window, or cannot be copied), the state is what it was.
  void JoinShared(const SharedState& shared);
  // The rows, slots and side table so far.
  Partial State();
  // Every sum rounded once. OUT_OF_RANGE (INTEGER_OVERFLOW). The second after what is in `last`,
  // which is rounded as it is summed where it is the whole round and the plan can.
  absl::StatusOr<Aggregate> Finish(double total_weight);
  absl::StatusOr<Aggregate> Finish(Batch& last, double total_weight);

  uint64_t device_bytes() const { return plan_ == nullptr ? 0 : plan_->bytes(); }
  uint64_t host_bytes() const;

 private:
  // A run in host memory, as large as the device could take at a time.
  struct HostRun {
    HostVector<uint64_t> rows;
    HostVector<Int128> slots;
  };
  // Positions [first, second) of each spilled run: all of them have the same range of rows.
  using Piece = std::vector<std::pair<uint64_t, uint64_t>>;
  using RunFunction = absl::FunctionRef<void(const SlotRun&)>;

  // With a window that suits `lsb`, unless another device has chosen one.
  void MakePlan(int32_t lsb);
  // Waits for everything queued: the end of a batch. The number of rows of the state comes along.
  void Settle();
  void FoldInHalves(Batch& batch);
  // Starts to look for side entries, and gives them when the queue has been waited for since.
  SideList StartSide(const BatchView& batch);
  void TakeSide(const BatchView& batch, const SideList& list, std::vector<SideEntry>& side);
  void AddSide(std::vector<SideEntry> side);
  void Spill();
  HostRun Fetch(const SlotRun& run);
  SlotRun Assemble(const Piece& piece);
  Aggregate EmptyResult() const;  // that can be in page-locked memory
  Finalization FinalizationOf(double total_weight) const;
  // Calls f with runs that are the whole state, of ascending ranges of rows. Where f throws that
  // memory is out, it must have left no trace: it is called again with the parts of that run.
  void ForEachPiece(RunFunction f);
  void ForEachPieceOf(const Piece& piece, RunFunction f);
  // The results of a batch that is the whole round; none where there is too little memory, or a sum
  // needs more than the plan does.
  std::optional<Aggregate> RoundAtOnce(const BatchRounder& rounder, Batch& batch,
                                       double total_weight);
  std::optional<Aggregate> RoundView(const BatchRounder& rounder, const BatchView& view,
                                     const Finalization& finalization);
  absl::Status FinalizePiece(const SlotRun& run, double total_weight, Aggregate& result);
  // Rows of the side table in [result_begin, end of the result]: the host makes their results, of
  // slots that `slots_of` queues for rows in device memory.
  using SlotsOf = absl::FunctionRef<void(const uint64_t* rows, uint64_t size, Int128* slots)>;
  void FinalizeSideRows(SlotsOf slots_of, double total_weight, size_t result_begin,
                        Aggregate& result);

  const ReduceSpec spec_;
  std::string plan_name_;
  Context& context_;
  const std::shared_ptr<SharedWindow> window_;
  SlotRule rule_;
  std::unique_ptr<DeviceReducer> plan_;  // made when the first batch has decided the window
  std::vector<SideEntry> side_;          // sorted
  std::vector<HostRun> spilled_;
  uint64_t addends_ = 0;  // entries that the state has
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_DEVICE_REDUCTION_H_
