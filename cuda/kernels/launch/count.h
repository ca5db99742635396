// A number that kernels go up to and that the host may not know: how many rows a batch or a state
// has. Kernels read it where another kernel has left it, so that nobody waits for it in between.
#ifndef SPARSEAGG_CUDA_KERNELS_LAUNCH_COUNT_H_
#define SPARSEAGG_CUDA_KERNELS_LAUNCH_COUNT_H_

#include <cstdint>

#include "base/host_device.h"

namespace sparseagg::gpu {

struct Count {
  const uint64_t* at = nullptr;  // device memory; null: `most` is the number
  uint64_t most = 0;             // never less than the number

  SPARSEAGG_HOST_DEVICE uint64_t Get() const { return at == nullptr ? most : *at; }
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_LAUNCH_COUNT_H_
