// What kernels read: a batch of updates in device memory, and the rule that turns its entries into
// slots.
#ifndef SPARSEAGG_CUDA_KERNELS_BATCH_H_
#define SPARSEAGG_CUDA_KERNELS_BATCH_H_

#include <cstdint>

#include "cuda/raii/queue.h"
#include "sparse/float_format.h"
#include "sparse/ops/op.h"
#include "sparse/types.h"

namespace sparseagg::gpu {

// One update. Pointers are device memory.
struct UpdateRef {
  const uint64_t* rows = nullptr;  // [nnz]
  const void* values = nullptr;    // [nnz, width]
  uint64_t first = 0;              // entries of the batch before this update's
  uint64_t nnz = 0;                // > 0
  float weight = 0;
  EntryOrder order = EntryOrder::kUnknown;
};

// Entry e of the batch is entry e - first of the last update whose first is not above e. A batch
// holds its updates whole, at least one, and less than 2^32 entries.
struct BatchView {
  const UpdateRef* updates = nullptr;  // device memory, [num_updates]
  uint32_t num_updates = 0;
  uint64_t nnz = 0;  // of all updates
  uint64_t num_rows = 0;
  uint32_t width = 1;                       // values of a row
  EntryOrder order = EntryOrder::kUnknown;  // that of the least ordered update
  double hottest_share = 0;                 // of the entries, in one row, by a sample
  uint64_t update_nnz_max = 0;              // entries of one update at most; 0: not known
};

// Slots as in sparse/partial.h: [rows, slots()], values first, then the row slot.
struct SlotRule {
  ValueSlots values = ValueSlots::kExactSum;
  RowSlot row = RowSlot::kNone;
  ValueType type = ValueType::kF32;
  IntegerOverflow overflow = IntegerOverflow::kChecked;
  uint32_t width = 1;
  int32_t lsb = 0;  // of the window (sparse/window.h)

  SPARSEAGG_HOST_DEVICE uint32_t value_slots() const {
    return values == ValueSlots::kNone ? 0 : width;
  }
  SPARSEAGG_HOST_DEVICE uint32_t slots() const {
    return value_slots() + (row == RowSlot::kNone ? 0 : 1);
  }
  // Slots hold order keys instead of sums; an update's duplicates are gathered first.
  SPARSEAGG_HOST_DEVICE bool extreme() const {
    return values == ValueSlots::kMin || values == ValueSlots::kMax;
  }
  // The slot of a row that nobody holds.
  SPARSEAGG_HOST_DEVICE Int128 Empty(uint32_t c) const {
    const auto largest = static_cast<Int128>(~static_cast<UInt128>(0) >> 1);
    if (c == value_slots() || !extreme()) return 0;
    return values == ValueSlots::kMin ? largest : -largest;
  }
  // Two parts of slot c.
  SPARSEAGG_HOST_DEVICE Int128 Join(uint32_t c, Int128 a, Int128 b) const {
    if (c == value_slots() || !extreme()) return a + b;
    return (a < b) == (values == ValueSlots::kMin) ? a : b;
  }
  // A slot may be left to the side table: sums of floating products.
  bool has_side() const {
    return IsFloating(type) && (values == ValueSlots::kExactSum || row == RowSlot::kWeight);
  }
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_BATCH_H_
