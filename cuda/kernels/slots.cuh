// From entries to slots, for every plan: what an entry of a batch adds to the slots of its row.
#ifndef SPARSEAGG_CUDA_KERNELS_SLOTS_CUH_
#define SPARSEAGG_CUDA_KERNELS_SLOTS_CUH_

#include <cstdint>

#include "cuda/kernels/batch.h"
#include "cuda/kernels/launch.cuh"
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

// What one update adds to the row slot of a row that it holds; 0 when the window does not hold it.
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

// A batch whose entries are sorted by row, entries of equal rows in the order of the batch: so
// those of one update lie together. `entries` [size] names the entry at each position.
template <class V>
struct SortedBatch {
  BatchView batch;
  SlotRule rule;
  const uint64_t* rows = nullptr;     // [size]
  const uint32_t* entries = nullptr;  // [size]
  uint64_t size = 0;

  // Whether position p is the first that its update has in its row.
  SPARSEAGG_HOST_DEVICE bool IsFirstOfUpdate(uint64_t p, const UpdateRef& update) const {
    return p == 0 || rows[p - 1] != rows[p] || entries[p - 1] < update.first;
  }

  // What position p adds to slot c of its row.
  SPARSEAGG_HOST_DEVICE Int128 Slot(uint64_t p, uint32_t c) const {
    const UpdateRef& update = batch.updates[SourceOf(batch, entries[p])];
    if (c == rule.value_slots()) {
      return IsFirstOfUpdate(p, update) ? RowAddend(rule, update.weight) : Int128{0};
    }
    if (rule.extreme()) return Extreme(p, c, update);
    return FixedProduct(ValueAt<V>(update, entries[p] - update.first, batch.width, c),
                        update.weight, rule.lsb);
  }

 private:
  // The first position of an update in a row gives the key of all that the update has there.
  SPARSEAGG_HOST_DEVICE Int128 Extreme(uint64_t p, uint32_t c, const UpdateRef& update) const {
    if (!IsFirstOfUpdate(p, update)) return rule.Empty(c);
    const uint64_t update_end = update.first + update.nnz;
    const V first = ValueAt<V>(update, entries[p] - update.first, batch.width, c);
    if (p + 1 == size || rows[p + 1] != rows[p] || entries[p + 1] >= update_end) {
      return KeyOf(first, rule.overflow);
    }
    return KeyOfSum(p, c, update, update_end);
  }

  SPARSEAGG_HOST_DEVICE Int128 KeyOfSum(uint64_t p, uint32_t c, const UpdateRef& update,
                                        uint64_t update_end) const {
    if constexpr (ValueTraits<V>::kFloating) {
      WideInteger sum;
      for (uint64_t q = p; q < size && rows[q] == rows[p] && entries[q] < update_end; ++q) {
        sum.Add(Widen(ValueAt<V>(update, entries[q] - update.first, batch.width, c)));
      }
      return ContributionKey(sum.Round(ValueTraits<V>::kFormat));
    } else {
      Int128 sum = 0;
      for (uint64_t q = p; q < size && rows[q] == rows[p] && entries[q] < update_end; ++q) {
        sum += static_cast<Int128>(ValueAt<V>(update, entries[q] - update.first, batch.width, c));
      }
      return ContributionKey<V>(sum, rule.overflow);
    }
  }
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_SLOTS_CUH_
