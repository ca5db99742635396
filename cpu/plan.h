// The seam between the CPU aggregator and its algorithms. A plan keeps the exact state of one
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

// How the entries of a window are brought together.
enum class Feed : uint8_t {
  kSweep,      // every update is sorted; its cursor delivers what it has in the window
  kPartition,  // one pass distributes entries in any order over the windows
};

// One thread at a time. Throws std::bad_alloc when there is no memory.
class CpuPlan {
 public:
  virtual ~CpuPlan() = default;

  // Folds a batch in, and releases its memory. `feed` decides about speed only.
  virtual void Fold(std::vector<PendingUpdate> batch, Feed feed) = 0;

  // Joins the sums of other reductions of the same spec.
  virtual void Merge(CellRun run) = 0;

  // The state so far; does not change it.
  virtual CellRun State() = 0;

  // Folds the last batch in and lowers everything. Ends the plan.
  virtual absl::StatusOr<SparseSums> Finish(std::vector<PendingUpdate> batch, Feed feed,
                                            double total_weight) = 0;

  // Bytes that the state holds.
  virtual uint64_t MemoryBytes() const = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_PLAN_H_
