// For min and max, which take an update's sum in a row: the sums of updates that have very many
// entries in a row, made by many threads before the kernels that need them.
#ifndef SPARSEAGG_CUDA_KERNELS_ROWS_LONG_SUMS_H_
#define SPARSEAGG_CUDA_KERNELS_ROWS_LONG_SUMS_H_

#include <cstdint>

#include "cuda/kernels/batch.h"
#include "cuda/kernels/sort/sorted_slots.h"

namespace sparseagg::gpu {

// Entries of an update in a row that one thread sums (a quarter of a millisecond, MODEL); of more
// it looks the sum up.
inline constexpr uint64_t kLongSum = 512;

// More than kLongSum positions in a row have a multiple of kLongSum among the first kLongSum, which
// no others of that kind have: it numbers them.
SPARSEAGG_HOST_DEVICE inline uint64_t LongSumAt(uint64_t position) {
  return (position + kLongSum - 1) / kLongSum;
}

struct LongSums {
  // [LongSumAt(size), width], order keys; those of no long sum are not written. Empty when no
  // update can have one.
  DeviceArray<Int128> keys;
};

// Does not wait. Throws CudaError.
LongSums SumLongRuns(Queue& queue, const BatchView& batch, const SlotRule& rule,
                     const SortedEntries& sorted);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_ROWS_LONG_SUMS_H_
