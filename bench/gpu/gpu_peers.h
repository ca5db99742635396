// What others would do on the same device, without any promise about bits: raw CUB, dense addition.
#ifndef SPARSEAGG_BENCH_GPU_GPU_PEERS_H_
#define SPARSEAGG_BENCH_GPU_GPU_PEERS_H_

#include <cstdint>

#include "cuda/kernels/batch.h"

namespace sparseagg::gpu {

// CUB's SortPairs over all 64 bits and ReduceByKey of f32 products. Scalars. Returns the number of
// rows.
uint64_t SortReduceByCub(Queue& queue, const BatchView& batch);

// Adds `contributors` dense updates [contributors, rows] of f32 into sums [rows].
void AddDense(Queue& queue, const float* updates, uint64_t rows, uint32_t contributors,
              float* sums);

// Between these a profiler that was told to wait records kernels. Without one they do nothing.
void StartProfile();
void StopProfile();

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_BENCH_GPU_GPU_PEERS_H_
