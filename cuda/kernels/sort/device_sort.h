// Radix sorts on the device, over no more bits than the keys have.
#ifndef SPARSEAGG_CUDA_KERNELS_SORT_DEVICE_SORT_H_
#define SPARSEAGG_CUDA_KERNELS_SORT_DEVICE_SORT_H_

#include <cstdint>

#include "base/host_device.h"
#include "cuda/raii/queue.h"

namespace sparseagg::gpu {

// Bits of the numbers below `limit`.
inline int BitsBelow(uint64_t limit) { return limit <= 1 ? 0 : 64 - CountLeadingZeros(limit - 1); }

// Sorts words [size] by their bits [begin_bit, end_bit). Stable. May exchange the array for
// another.
void SortWords(Queue& queue, DeviceArray<uint64_t>& words, uint32_t size, int begin_bit,
               int end_bit);

// Sorts rows [size] by their bits [0, end_bit), and entries [size] along with them. Stable. May
// exchange the arrays for others.
void SortRows(Queue& queue, DeviceArray<uint64_t>& rows, DeviceArray<uint32_t>& entries,
              uint32_t size, int end_bit);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_SORT_DEVICE_SORT_H_
