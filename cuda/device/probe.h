// Which GPUs this machine has, asked once through the CUDA runtime, without keeping a context. No
// CUDA type in here.
#ifndef SPARSEAGG_CUDA_DEVICE_PROBE_H_
#define SPARSEAGG_CUDA_DEVICE_PROBE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sparseagg {

struct GpuInfo {
  int ordinal = 0;  // the runtime's number
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  uint64_t memory_bytes = 0;
  uint32_t multiprocessors = 0;
  uint64_t cache_bytes = 0;  // of the second cache
};

// The GPUs, in the runtime's order; at least the runtime's first, which is the fastest unless
// CUDA_DEVICE_ORDER says otherwise. UNAVAILABLE (NO_GPU) says why there is none: no device, no
// driver, a driver too old for this build's runtime (with both versions), or a first device before
// compute capability 8.0, which this build has no code for; later ones of those are left out.
absl::StatusOr<std::vector<GpuInfo>> ProbeGpus();

}  // namespace sparseagg

#endif  // SPARSEAGG_CUDA_DEVICE_PROBE_H_
