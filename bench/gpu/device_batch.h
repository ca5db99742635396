// Batches made on the device, for measurements that nothing but the reduction should be part of.
#ifndef SPARSEAGG_BENCH_GPU_DEVICE_BATCH_H_
#define SPARSEAGG_BENCH_GPU_DEVICE_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/gpu/batch_case.h"
#include "cuda/kernels/batch.h"
#include "cuda/kernels/sort/hash.h"
#include "cuda/slot_run.h"

namespace sparseagg::gpu {

// f32 values, weights of 1 to 100.
struct DeviceBatch {
  DeviceArray<std::byte> memory;
  DeviceArray<UpdateRef> table;
  std::vector<UpdateRef> refs;
  BatchView view;
};

DeviceBatch MakeBatch(Queue& queue, const BatchCase& batch_case, uint64_t seed);

// The digest of a run is the sum of this over its slots, modulo 2^64.
SPARSEAGG_HOST_DEVICE inline uint64_t DigestOfSlot(uint64_t row, uint64_t column, Int128 slot) {
  const auto bits = static_cast<UInt128>(slot);
  return Hash(Hash(row + column) ^ Hash(static_cast<uint64_t>(bits)) ^
              Hash(~static_cast<uint64_t>(bits >> 64)));
}

// A number that two runs with the same rows and slots share.
uint64_t DigestOf(Queue& queue, const SlotRule& rule, const SlotRun& run);

// Returns the number of bytes, of `size`, that differ.
uint64_t Differences(Queue& queue, const std::byte* a, const std::byte* b, uint64_t size);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_BENCH_GPU_DEVICE_BATCH_H_
