// The seam between the CPU aggregator and its algorithms. A plan keeps the exact state of one
// reduction and folds batches into it. A new algorithm is one class like SortPlan and one row in
// cpu_backend.cc.
#ifndef SPARSEAGG_CPU_PLAN_H_
#define SPARSEAGG_CPU_PLAN_H_

#include <span>

#include "cpu/batch.h"
#include "sparse/partial.h"

namespace sparseagg {

// One thread at a time.
class CpuPlan {
 public:
  virtual ~CpuPlan() = default;

  // Folds the entries of a batch in. The updates stay the caller's.
  virtual void Fold(std::span<const PendingUpdate> batch) = 0;

  // Joins a partial aggregate of the same spec.
  virtual void Merge(Partial partial) = 0;

  // rows, slots, side, lsb and addends of the state; the aggregator fills in the rest.
  virtual Partial State() = 0;

  // The same as the last call: may hand over its memory instead of a copy.
  virtual Partial TakeState() { return State(); }

  // Bytes that the state holds.
  virtual uint64_t MemoryBytes() const = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_PLAN_H_
