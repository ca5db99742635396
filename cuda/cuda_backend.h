// The back end for NVIDIA GPUs: sorts and reduces on the device, with the bits of the others. How
// it works is in docs/ARCHITECTURE.md, "How a GPU reduces". No CUDA type in here.
#ifndef SPARSEAGG_CUDA_CUDA_BACKEND_H_
#define SPARSEAGG_CUDA_CUDA_BACKEND_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "cuda/tuning.h"
#include "sparse/backend.h"

namespace sparseagg {

// On the first of options.devices. memory_bytes 0: three quarters of the device's memory.
// UNAVAILABLE (NO_GPU) says why there is none. A call of an aggregator may fail with UNAVAILABLE
// (GPU_LOST), then so do all calls after it, or with RESOURCE_EXHAUSTED (GPU_OUT_OF_MEMORY,
// GPU_REFUSED), then that aggregator is of no more use.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const BackendOptions& options);

// On each of options.devices, which share the page-locked memory that updates are staged in.
// INVALID_ARGUMENT (UNKNOWN_DEVICE) when the machine lacks one of them.
absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeCudaBackends(
    const BackendOptions& options);

// The same with other sizes, for tests.
absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeCudaBackends(
    const BackendOptions& options, const gpu::Tuning& tuning);
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const BackendOptions& options,
                                                         const gpu::Tuning& tuning);

}  // namespace sparseagg

#endif  // SPARSEAGG_CUDA_CUDA_BACKEND_H_
