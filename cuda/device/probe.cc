#include "cuda/device/probe.h"

#include <cuda_runtime_api.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

// The oldest generation that kernels are compiled for; a tile of tile_merge.cu takes 94 KB of
// shared memory, which older ones do not have.
constexpr int kComputeMajorMin = 8;

absl::Status NoGpu(const std::string& why) {
  return MakeError(absl::StatusCode::kUnavailable, "NO_GPU", absl::StrCat("no usable GPU: ", why));
}

// 13000 is "13.0".
std::string CudaVersion(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// What the runtime says without a driver, too.
std::string DriverAndRuntime() {
  int driver = 0;
  int runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  return absl::StrCat(driver == 0
                          ? "there is no driver"
                          : absl::StrCat("the driver is one for CUDA ", CudaVersion(driver)),
                      ", this build needs one for CUDA ", CudaVersion(runtime), " or newer");
}

absl::Status NoGpu(cudaError_t error) {
  return NoGpu(absl::StrCat(
      cudaGetErrorString(error), " (", cudaGetErrorName(error), ")",
      error == cudaErrorInsufficientDriver ? absl::StrCat("; ", DriverAndRuntime()) : ""));
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
    if (properties.major < kComputeMajorMin) {
      if (device > 0) continue;  // the first is the one that is used unless others are asked for
      return NoGpu(absl::StrCat(properties.name, " has compute capability ", properties.major, ".",
                                properties.minor, ", this build needs ", kComputeMajorMin, ".0"));
    }
    gpus.push_back({.ordinal = device,
                    .name = properties.name,
                    .compute_major = properties.major,
                    .compute_minor = properties.minor,
                    .memory_bytes = properties.totalGlobalMem,
                    .multiprocessors = static_cast<uint32_t>(properties.multiProcessorCount),
                    .cache_bytes = static_cast<uint64_t>(properties.l2CacheSize)});
  }
  return gpus;
}

}  // namespace sparseagg
