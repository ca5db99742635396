// Pseudo-random numbers for loads that are made up: each from its position alone.
#ifndef SPARSEAGG_CUDA_KERNELS_SORT_HASH_H_
#define SPARSEAGG_CUDA_KERNELS_SORT_HASH_H_

#include <cstdint>

#include "base/host_device.h"

namespace sparseagg::gpu {

// splitmix64 (Steele, Lea, Flood, 2014).
SPARSEAGG_HOST_DEVICE inline uint64_t Hash(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_SORT_HASH_H_
