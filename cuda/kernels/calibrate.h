// Loads that show a device's rates (cuda/device/calibration.h): nothing but what a plan does most
// of.
#ifndef SPARSEAGG_CUDA_KERNELS_CALIBRATE_H_
#define SPARSEAGG_CUDA_KERNELS_CALIBRATE_H_

#include <cstdint>

#include "cuda/raii/queue.h"

namespace sparseagg::gpu {

// numbers [size] become pseudo-random.
void FillAtRandom(Queue& queue, uint64_t* numbers, uint64_t size);

// `adds` 64-bit atomic adds to random places of table [size]. REQUIRES: a power of two.
void AddAtRandom(Queue& queue, uint64_t* table, uint64_t size, uint64_t adds);

// Adds to random slots of each block's shared memory, as in tile_merge.cu. The number of adds is at
// least `adds` and the result.
uint64_t AddInShared(Queue& queue, uint64_t adds);

// A kernel that does nothing.
void LaunchOnly(Queue& queue);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_CALIBRATE_H_
