// From entries to slots, for every plan: what an entry of a batch adds to the slots of its row.
#ifndef SPARSEAGG_CUDA_KERNELS_SLOTS_CUH_
#define SPARSEAGG_CUDA_KERNELS_SLOTS_CUH_

#include <cstdint>
#include <type_traits>

#include "cuda/kernels/batch.h"
#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/rows/long_sums.h"
#include "cuda/kernels/sort/sorted_slots.h"
#include "sparse/slot_math.h"
#include "sparse/values.h"
#include "sparse/wide_integer.h"
#include "sparse/window.h"

namespace sparseagg::gpu {

// The update that entry e belongs to: a binary search in a table that stays in the first cache.
SPARSEAGG_HOST_DEVICE inline uint32_t SourceOf(const BatchView& batch, uint64_t e) {
  uint32_t low = 0;
  uint32_t high = batch.num_updates;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (batch.updates[middle].first <= e) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// What entry (update, e) has at column c, e counted inside the update.
template <class V>
SPARSEAGG_HOST_DEVICE inline V ValueAt(const UpdateRef& update, uint64_t e, uint32_t width,
                                       uint32_t c) {
  return static_cast<const V*>(update.values)[e * width + c];
}

// weight * value in multiples of 2^lsb; 0 when the window does not hold it: the side table does
// (kernels/side.h).
template <class V>
SPARSEAGG_HOST_DEVICE inline Int128 FixedProduct(V value, float weight, int32_t lsb) {
  if constexpr (ValueTraits<V>::kFloating) {
    Int128 fixed = 0;
    ToFixed(Lift(value, weight), lsb, &fixed);
    return fixed;
  } else {
    return Lift(value, weight);
  }
}

// Returns what an update adds to the row slot of a row that it holds; 0 if it is out of the window.
SPARSEAGG_HOST_DEVICE inline Int128 RowAddend(const SlotRule& rule, float weight) {
  if (rule.row == RowSlot::kNone) return 0;
  if (rule.row == RowSlot::kOne) return 1;
  if (!IsFloating(rule.type)) return static_cast<Int128>(weight);
  Int128 fixed = 0;
  ToFixed(weight, rule.lsb, &fixed);
  return fixed;
}

// The order key of one value.
template <class V>
SPARSEAGG_HOST_DEVICE inline Int128 KeyOf(V value, IntegerOverflow overflow) {
  if constexpr (ValueTraits<V>::kFloating) {
    return ContributionKey(Widen(value));
  } else {
    return ContributionKey<V>(static_cast<Int128>(value), overflow);
  }
}

// The exact sum of an update's values in a row.
template <class V>
using ExactSum = std::conditional_t<ValueTraits<V>::kFloating, WideInteger, Int128>;

template <class V>
SPARSEAGG_HOST_DEVICE inline void AddTo(WideInteger& sum, V value) {
  if constexpr (std::is_same_v<V, WideInteger>) {
    sum.Add(value);
  } else {
    sum.Add(Widen(value));
  }
}
template <class V>
SPARSEAGG_HOST_DEVICE inline void AddTo(Int128& sum, V value) {
  sum += static_cast<Int128>(value);
}

// The order key of such a sum.
template <class V>
SPARSEAGG_HOST_DEVICE inline Int128 KeyOfSum(const ExactSum<V>& sum, IntegerOverflow overflow) {
  if constexpr (ValueTraits<V>::kFloating) {
    return ContributionKey(sum.Round(ValueTraits<V>::kFormat));
  } else {
    return ContributionKey<V>(sum, overflow);
  }
}

// A batch whose entries are sorted by row.
template <class V>
struct SortedBatch {
  BatchView batch;
  SlotRule rule;
  SortedEntries sorted;
  const Int128* long_sums = nullptr;  // LongSums::keys

  // Returns whether position p is the first that its update has in its row.
  SPARSEAGG_HOST_DEVICE bool IsFirstOfUpdate(uint64_t p, const UpdateRef& update) const {
    return p == 0 || sorted.Row(p - 1) != sorted.Row(p) || sorted.Entry(p - 1) < update.first;
  }

  // Returns what position p adds to slot c of its row.
  SPARSEAGG_DEVICE Int128 Slot(uint64_t p, uint32_t c) const {
    const uint64_t e = sorted.Entry(p);
    const UpdateRef& update = batch.updates[SourceOf(batch, e)];
    if (c == rule.value_slots()) {
      return IsFirstOfUpdate(p, update) ? RowAddend(rule, update.weight) : Int128{0};
    }
    if (rule.extreme()) return Extreme(p, c, update);
    return FixedProduct(ValueAt<V>(update, e - update.first, batch.width, c), update.weight,
                        rule.lsb);
  }

 private:
  // The first position of an update in a row gives the key of all that the update has there.
  SPARSEAGG_DEVICE Int128 Extreme(uint64_t p, uint32_t c, const UpdateRef& update) const {
    if (!IsFirstOfUpdate(p, update)) return rule.Empty(c);
    if (!IsOfUpdate(p + 1, p, update)) {
      return KeyOf(ValueAt<V>(update, sorted.Entry(p) - update.first, batch.width, c),
                   rule.overflow);
    }
    // Entries of an update ascend in a row: the one so far behind is of it only if all between are.
    if (update.nnz > kLongSum && IsOfUpdate(p + kLongSum, p, update)) {
      return long_sums[LongSumAt(p) * rule.width + c];
    }
    ExactSum<V> sum{};
    for (uint64_t q = p; IsOfUpdate(q, p, update); ++q) {
      AddTo(sum, ValueAt<V>(update, sorted.Entry(q) - update.first, batch.width, c));
    }
    return KeyOfSum<V>(sum, rule.overflow);
  }

  // Whether position q, not before p, is of p's row and of `update`, which p is of.
  SPARSEAGG_HOST_DEVICE bool IsOfUpdate(uint64_t q, uint64_t p, const UpdateRef& update) const {
    return q < sorted.size && sorted.Row(q) == sorted.Row(p) &&
           sorted.Entry(q) < update.first + update.nnz;
  }
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_SLOTS_CUH_
