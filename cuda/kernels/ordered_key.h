// Order keys of min and max as unsigned numbers of 64 bits of the same order, which atomics
// compare.
#ifndef SPARSEAGG_CUDA_KERNELS_ORDERED_KEY_H_
#define SPARSEAGG_CUDA_KERNELS_ORDERED_KEY_H_

#include <cstdint>

#include "cuda/kernels/batch.h"

namespace sparseagg::gpu {

// Keys of a type fit in 64 bits.
SPARSEAGG_HOST_DEVICE inline uint64_t Ordered(const SlotRule& rule, Int128 key) {
  const auto low = static_cast<uint64_t>(key);
  return rule.type == ValueType::kU64 ? low : low ^ (uint64_t{1} << 63);
}
SPARSEAGG_HOST_DEVICE inline Int128 KeyOfOrdered(const SlotRule& rule, uint64_t ordered) {
  if (rule.type == ValueType::kU64) return static_cast<Int128>(ordered);
  return static_cast<int64_t>(ordered ^ (uint64_t{1} << 63));
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_ORDERED_KEY_H_
