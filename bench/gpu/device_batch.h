// Batches made on the device, for measurements that nothing but the reduction should be part of.
#ifndef SPARSEAGG_BENCH_GPU_DEVICE_BATCH_H_
#define SPARSEAGG_BENCH_GPU_DEVICE_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/kernels/batch.h"

namespace sparseagg::gpu {

struct BatchCase {
  uint64_t entries = 0;  // of all contributors together
  uint64_t rows = 0;     // index space
  uint32_t contributors = 1;
  std::string
      indices;  // "uniform", "zipf" (exponent about 1.05), "overlap" (the same half for all)
  bool sorted = false;
  uint32_t width = 1;
};

// f32 values, weights of 1 to 100.
struct DeviceBatch {
  DeviceArray<std::byte> memory;
  DeviceArray<UpdateRef> table;
  std::vector<UpdateRef> refs;
  BatchView view;
};

DeviceBatch MakeBatch(Queue& queue, const BatchCase& batch_case, uint64_t seed);

// A number that two runs with the same rows and slots share.
uint64_t DigestOf(Queue& queue, const SlotRule& rule, const Run& run);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_BENCH_GPU_DEVICE_BATCH_H_
