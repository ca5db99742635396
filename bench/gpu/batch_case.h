// One case of the GPU benchmarks. Seen by kernels, so without absl.
#ifndef SPARSEAGG_BENCH_GPU_BATCH_CASE_H_
#define SPARSEAGG_BENCH_GPU_BATCH_CASE_H_

#include <cstdint>
#include <string>

namespace sparseagg::gpu {

// f32 values; what the fields mean is said in grid.py.
struct BatchCase {
  uint64_t entries = 0;  // of all contributors together
  uint64_t rows = 0;     // index space
  uint32_t contributors = 1;
  std::string indices;
  bool sorted = false;
  uint32_t width = 1;

  uint64_t nnz_per_update() const { return entries / contributors; }
  bool operator==(const BatchCase&) const = default;
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_BENCH_GPU_BATCH_CASE_H_
