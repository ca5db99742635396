// The seam between the CPU aggregator and its algorithms. A plan keeps the exact state of one
// reduction and folds batches into it. A new algorithm is one header with a class like these, and
// one row in cpu_backend.cc.
#ifndef SPARSEAGG_CPU_PLAN_H_
#define SPARSEAGG_CPU_PLAN_H_

#include <span>
#include <vector>

#include "cpu/batch.h"
#include "cpu/parallel.h"
#include "cpu/window_choice.h"
#include "sparse/partial.h"
#include "sparse/slot_math.h"

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
};

// About `kWindowSamples` products of a batch, spread evenly over its updates and their entries.
inline constexpr uint64_t kWindowSamples = 4096;

template <class Op, class V>
std::vector<double> SampleProducts(const TensorLayout& layout,
                                   std::span<const PendingUpdate> batch) {
  std::vector<double> samples;
  if constexpr (ValueTraits<V>::kFloating && Op::kValues == ValueSlots::kExactSum) {
    uint64_t total = 0;
    for (const PendingUpdate& update : batch) total += update.staged.entries.nnz * layout.row_width;
    const uint64_t stride = total / kWindowSamples + 1;
    uint64_t next = 0;  // position of the next sample, counted over the whole batch
    uint64_t first = 0;
    for (const PendingUpdate& update : batch) {
      const uint64_t size = update.staged.entries.nnz * layout.row_width;
      const auto* values = static_cast<const V*>(update.staged.entries.values);
      for (; next < first + size; next += stride)
        samples.push_back(Lift(values[next - first], update.weight));
      first += size;
      if (Op::kRowSlot == RowSlot::kWeight) samples.push_back(update.weight);
    }
  }
  return samples;
}

// A window is kept while it holds nearly all products: moving costs a pass over the state.
inline constexpr double kWindowCoverageKept = 0.99;

inline int32_t NextWindow(const std::vector<double>& samples, bool has_window, int32_t lsb) {
  if (has_window && WindowCoverage(samples, lsb) >= kWindowCoverageKept) return lsb;
  const int32_t chosen = ChooseWindow(samples);
  const bool better =
      !has_window || WindowCoverage(samples, chosen) > WindowCoverage(samples, lsb) + 0.1;
  return better ? chosen : lsb;
}

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_PLAN_H_
