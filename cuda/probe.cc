#include "cuda/probe.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

absl::Status NoGpu(cudaError_t error) {
  return MakeError(absl::StatusCode::kUnavailable, "NO_GPU",
                   absl::StrCat("no usable GPU: ", cudaGetErrorString(error), " (",
                                cudaGetErrorName(error), ")"));
}

}  // namespace

absl::StatusOr<std::vector<GpuInfo>> ProbeGpus() {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess)
    return NoGpu(error);
  if (count == 0) return NoGpu(cudaErrorNoDevice);
  std::vector<GpuInfo> gpus;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties;
    if (const cudaError_t error = cudaGetDeviceProperties(&properties, device);
        error != cudaSuccess) {
      return NoGpu(error);
    }
    gpus.push_back(
        {properties.name, properties.major, properties.minor, properties.totalGlobalMem});
  }
  return gpus;
}

}  // namespace sparseagg
