// The interface between the CPU aggregator and its algorithms. A plan keeps the exact state of one
// reduction and folds batches into it.
#ifndef SPARSEAGG_CPU_PLAN_H_
#define SPARSEAGG_CPU_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "cpu/state/entries.h"
#include "cpu/windowed/canonical.h"
#include "cpu/windowed/ranged_output.h"

namespace sparseagg {

// The way in which a plan brings the entries of a window together.
enum class Feed : uint8_t {
  kSweep,      // every update is sorted; its cursor delivers its entries of the window
  kPartition,  // one pass distributes entries in any order over the windows
};

// Thread-compatible. Functions throw std::bad_alloc when memory runs out.
class CpuReducer {
 public:
  virtual ~CpuReducer() = default;

  // Folds a batch into the state and releases the batch's memory. `feed` affects speed only.
  virtual void Fold(std::vector<PendingUpdate> batch, Feed feed) = 0;

  // Merges the sums of other reductions of the same spec into the state.
  virtual void Merge(CellRun run) = 0;

  // Returns a copy of the state so far.
  virtual CellRun State() = 0;

  // Folds the last batch in and rounds every sum to its result. The plan must not be used
  // afterwards.
  virtual absl::StatusOr<SparseSums> Finish(std::vector<PendingUpdate> batch, Feed feed,
                                            double total_weight) = 0;

  // Returns the bytes that the state holds.
  virtual uint64_t MemoryBytes() const = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_PLAN_H_
