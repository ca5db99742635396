// One reduction on the device: the slots in a plan's state, what their window does not hold, and
// runs that had to leave the device. On the device thread only; members throw CudaError.
#ifndef SPARSEAGG_CUDA_REDUCTION_H_
#define SPARSEAGG_CUDA_REDUCTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "cuda/context.h"
#include "cuda/kernels/side.h"
#include "cuda/plan.h"
#include "sparse/backend.h"
#include "sparse/partial.h"

namespace sparseagg::gpu {

class Reduction {
 public:
  // `plan` is one of DevicePlans().
  Reduction(ReduceSpec spec, std::string plan, Context& context);

  // Whether there is a state yet; until then another plan can be used.
  bool begun() const { return plan_ != nullptr; }
  void UsePlan(std::string plan) { plan_name_ = std::move(plan); }

  // Adds updates, and releases them. Out of memory: the state moves to the host, then the batch is
  // halved, by updates and then by rows; throws when one row is too much.
  void Fold(Batch& batch);
  // Adds a partial aggregate.
  void Join(Partial partial);
  // The rows, slots and side table so far.
  Partial State();
  // Every sum rounded once. OUT_OF_RANGE (INTEGER_OVERFLOW).
  absl::StatusOr<Aggregate> Finish(double total_weight);

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
  using RunFunction = absl::FunctionRef<void(const Run&)>;

  void MakePlan(int32_t lsb);
  // Waits for everything queued: the end of a batch. The number of rows of the state comes along.
  void Settle();
  void FoldInHalves(Batch& batch);
  // Starts to look for side entries, and gives them when the queue has been waited for since.
  SideList StartSide(const BatchView& batch);
  void TakeSide(const BatchView& batch, const SideList& list, std::vector<SideEntry>& side);
  void AddSide(std::vector<SideEntry> side);
  void Spill();
  HostRun Fetch(const Run& run);
  Run Assemble(const Piece& piece);
  // Calls f with runs that are the whole state, of ascending ranges of rows. Where f throws that
  // memory is out, it must have left no trace: it is called again with the parts of that run.
  void ForEachPiece(RunFunction f);
  void ForEachPieceOf(const Piece& piece, RunFunction f);
  absl::Status LowerPiece(const Run& run, double total_weight, Aggregate& result);
  void LowerSideRows(const Run& run, const std::vector<uint64_t>& rows,
                     const DeviceArray<uint64_t>& device_rows, double total_weight,
                     size_t result_begin, Aggregate& result);

  const ReduceSpec spec_;
  std::string plan_name_;
  Context& context_;
  SlotRule rule_;
  std::unique_ptr<DevicePlan> plan_;  // made when the first batch has decided the window
  std::vector<SideEntry> side_;       // sorted
  std::vector<HostRun> spilled_;
  uint64_t addends_ = 0;  // entries that the state has
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_REDUCTION_H_
