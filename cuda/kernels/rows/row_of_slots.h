// The one or two slots of a row of one value, as a value that Thrust's algorithms move.
#ifndef SPARSEAGG_CUDA_KERNELS_ROWS_ROW_OF_SLOTS_H_
#define SPARSEAGG_CUDA_KERNELS_ROWS_ROW_OF_SLOTS_H_

#include <cstdint>

#include "cuda/kernels/batch.h"

namespace sparseagg::gpu {

// In the layout of SlotRun::slots.
template <uint32_t kSlots>
struct RowOfSlots {
  Int128 slot[kSlots];
};

template <uint32_t kSlots>
struct JoinRows {
  SlotRule rule;
  SPARSEAGG_HOST_DEVICE RowOfSlots<kSlots> operator()(const RowOfSlots<kSlots>& a,
                                                      const RowOfSlots<kSlots>& b) const {
    RowOfSlots<kSlots> joined;
    for (uint32_t c = 0; c < kSlots; ++c) joined.slot[c] = rule.Join(c, a.slot[c], b.slot[c]);
    return joined;
  }
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_ROWS_ROW_OF_SLOTS_H_
