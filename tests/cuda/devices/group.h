// Groups of emulated GPUs for tests.
#ifndef SPARSEAGG_TESTS_CUDA_DEVICES_GROUP_H_
#define SPARSEAGG_TESTS_CUDA_DEVICES_GROUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/cuda_backend.h"
#include "sparse/device_group.h"
#include "sparse/failover_backend.h"
#include "sparse/reference_backend.h"
#include "tests/cuda/emulator/runtime.h"

namespace sparseagg::testing {

// The back end on `devices` GPUs of as many, without a fallback.
inline std::unique_ptr<Backend> MakeGpuGroup(int devices, const gpu::Tuning& tuning) {
  TheFakeMachine().devices = devices;
  return MakeDeviceGroup(*MakeCudaBackends({.devices = {.all = true, .numbers = {}}}, tuning));
}

// The same as the server makes it: the reference back end takes over what a lost device held.
inline std::unique_ptr<Backend> MakeGuardedGpuGroup(int devices, const gpu::Tuning& tuning,
                                                    const FailoverOptions& options) {
  TheFakeMachine().devices = devices;
  auto each = *MakeCudaBackends({.devices = {.all = true, .numbers = {}}}, tuning);
  const std::shared_ptr<Backend> second = *MakeReferenceBackend({});
  for (auto& device : each) device = MakeFailoverBackend(std::move(device), second, options);
  return MakeDeviceGroup(std::move(each));
}

// The first misuse of any device; empty: none.
inline std::string Misuses() {
  for (int device = 0; device < kFakeGpusMax; ++device) {
    if (!TheFakeGpu(device).misuse.empty()) return TheFakeGpu(device).misuse;
  }
  return "";
}

// How many devices have got entries.
inline int DevicesWithEntries() {
  int count = 0;
  for (int device = 0; device < kFakeGpusMax; ++device) {
    if (TheFakeGpu(device).to_device_bytes > 0) ++count;
  }
  return count;
}

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_CUDA_DEVICES_GROUP_H_
