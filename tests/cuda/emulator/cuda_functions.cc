// The functions of the CUDA runtime, over the state of the emulated devices.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/cuda/emulator/state.h"

using sparseagg::testing::Allocate;
using sparseagg::testing::Call;
using sparseagg::testing::CallHook;
using sparseagg::testing::CheckCurrent;
using sparseagg::testing::CheckMemory;
using sparseagg::testing::CheckWords;
using sparseagg::testing::current_device;
using sparseagg::testing::DeviceOf;
using sparseagg::testing::FakeGpu;
using sparseagg::testing::Forget;
using sparseagg::testing::Kind;
using sparseagg::testing::Misuse;
using sparseagg::testing::Ok;
using sparseagg::testing::RecordedEvent;
using sparseagg::testing::Release;
using sparseagg::testing::State;
using sparseagg::testing::Stream;
using sparseagg::testing::StreamOwner;
using sparseagg::testing::TheState;
using sparseagg::testing::WaitForDevice;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return Call(0, [&](State& state, FakeGpu&) {
    if (state.machine.driver_version < CUDART_VERSION) return cudaErrorInsufficientDriver;
    *count = state.machine.devices;
    return state.machine.devices > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return Call(device, [&](State&, FakeGpu& gpu) {
    *properties = {};
    std::strcpy(properties->name, "an emulated GPU");
    properties->major = gpu.compute_major;
    properties->multiProcessorCount = 2;
    properties->l2CacheSize = 1 << 20;
    properties->totalGlobalMem = gpu.memory_bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return Call(0, [&](State& state, FakeGpu&) {
    *version = state.machine.driver_version;
    return cudaSuccess;
  });
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return Ok();
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= TheState().machine.devices) return cudaErrorInvalidDevice;
  current_device = device;
  return Ok();
}
cudaError_t cudaGetLastError() { return Ok(); }
cudaError_t cudaPeekAtLastError() { return Ok(); }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "an injected fault";
}
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorInjected";
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return Call(current_device, [&](State& state, FakeGpu& gpu) {
    gpu.used = true;
    state.streams.push_back(std::make_shared<Stream>(Stream{.device = current_device}));
    *stream = reinterpret_cast<cudaStream_t>(new StreamOwner(state.streams.back()));
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t status = Ok(DeviceOf(stream));
  const std::unique_ptr<StreamOwner> owner(reinterpret_cast<StreamOwner*>(stream));
  sparseagg::testing::RunAll(*owner);
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  std::erase(state.streams, *owner);
  return status;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const cudaError_t status = WaitForDevice(DeviceOf(stream));
  if (status == cudaSuccess) sparseagg::testing::RunQueued(stream);
  return status;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  RecordedEvent recorded;
  const cudaError_t status = Call(DeviceOf(stream), [&](State&, FakeGpu&) {
    recorded = *reinterpret_cast<RecordedEvent*>(event);
    return cudaSuccess;
  });
  if (status != cudaSuccess || recorded.stream == nullptr) return status;
  sparseagg::testing::Queue(stream, Kind::kOther, [recorded] {
    sparseagg::testing::RunUpTo(*recorded.stream, recorded.last);
  });
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return Call(current_device, [&](State&, FakeGpu&) {
    *event = reinterpret_cast<cudaEvent_t>(new RecordedEvent{.device = current_device});
    return cudaSuccess;
  });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const int device = reinterpret_cast<RecordedEvent*>(event)->device;
  delete reinterpret_cast<RecordedEvent*>(event);
  return Ok(device);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return Call(DeviceOf(stream), [&](State&, FakeGpu& gpu) {
    const StreamOwner owner = sparseagg::testing::Owner(stream);
    auto& recorded = *reinterpret_cast<RecordedEvent*>(event);
    if (recorded.device != owner->device) Misuse(gpu, "an event of another device is recorded");
    recorded.stream = owner;
    recorded.last = owner->last;
    return cudaSuccess;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const cudaError_t status = WaitForDevice(reinterpret_cast<RecordedEvent*>(event)->device);
  if (status != cudaSuccess) return status;
  RecordedEvent recorded;
  {
    const std::lock_guard lock(TheState().mutex);
    recorded = *reinterpret_cast<RecordedEvent*>(event);
  }
  if (recorded.stream != nullptr) sparseagg::testing::RunUpTo(*recorded.stream, recorded.last);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = 1;
  return Ok();
}

// A pool is its device, from 1 on.
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  const auto device = static_cast<uintptr_t>(properties->location.id);
  *pool = reinterpret_cast<cudaMemPool_t>(device + 1);  // NOLINT(performance-no-int-to-ptr)
  return Ok(properties->location.id);
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t) { return Ok(); }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return Ok(); }
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t) { return Ok(); }
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int) {
  return Call(device, [&](State& state, FakeGpu&) {
    *can = state.machine.peer_access ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaMallocFromPoolAsync(void** memory, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  const int device = DeviceOf(stream);
  return Call(device, [&](State& state, FakeGpu& gpu) {
    gpu.used = true;
    CheckCurrent(state, device, "an allocation");
    if (reinterpret_cast<uintptr_t>(pool) != static_cast<uintptr_t>(device) + 1) {
      Misuse(gpu, "an allocation from the pool of another device");
    }
    const cudaError_t status =
        Allocate(memory, bytes, device, gpu.memory_bytes, gpu.memory_used, state.device_memory);
    gpu.memory_peak = std::max(gpu.memory_peak, gpu.memory_used);
    return status;
  });
}
// Freeing works after a failure, too: the process must not leak what it can free. Others can have
// the memory from now on, as of a pool, though not its place before the stream comes to it.
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  State& state = TheState();
  size_t bytes = 0;
  {
    const std::lock_guard lock(state.mutex);
    const int device = DeviceOf(stream);
    CheckCurrent(state, device, "a free");
    CheckMemory(state, device, memory, "a free");
    const cudaError_t status =
        Forget(memory, state.gpus[device].memory_used, state.device_memory, bytes);
    if (status != cudaSuccess) return status;
  }
  sparseagg::testing::Queue(stream, Kind::kFree, [memory, bytes] { Release(memory, bytes); });
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  CallHook(TheState().machine.in_page_locking);
  return Call(current_device, [&](State& state, FakeGpu& gpu) {
    gpu.used = true;
    return Allocate(memory, bytes, current_device, state.machine.pinned_bytes,
                    state.machine.pinned_used, state.pinned_memory);
  });
}
cudaError_t cudaFreeHost(void* memory) {
  CallHook(TheState().machine.in_page_locking);
  State& state = TheState();
  size_t bytes = 0;
  const std::lock_guard lock(state.mutex);
  const cudaError_t status = Forget(memory, state.machine.pinned_used, state.pinned_memory, bytes);
  if (status == cudaSuccess) Release(memory, bytes);
  return status;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  // Larger uploads are entries, which have no addresses.
  constexpr size_t kTableBytes = 4096;
  const bool to_pageable = kind == cudaMemcpyDeviceToHost && !sparseagg::testing::IsPinned(to);
  const bool from_pageable = kind == cudaMemcpyHostToDevice && !sparseagg::testing::IsPinned(from);
  const int device = DeviceOf(stream);
  if (to_pageable || from_pageable) {
    const cudaError_t status = WaitForDevice(device);
    if (status != cudaSuccess) return status;
  }
  bool late = false;
  const cudaError_t status = Call(device, [&](State& state, FakeGpu& gpu) {
    CheckCurrent(state, device, "a copy");
    CheckMemory(state, device, to, "a copy");
    CheckMemory(state, device, from, "a copy");
    ++gpu.transfers;
    if (kind == cudaMemcpyHostToDevice) {
      gpu.to_device_bytes += bytes;
      if (bytes <= kTableBytes) CheckWords(state, device, from, bytes, "an uploaded table");
    }
    late = state.machine.late;
    return cudaSuccess;
  });
  if (status != cudaSuccess) return status;
  if (late && from_pageable) {
    // Into memory of the driver's, for as long as it may stay there.
    const auto* begin = static_cast<const std::byte*>(from);
    sparseagg::testing::Queue(stream, Kind::kOther,
                              [to, driver = std::vector<std::byte>(begin, begin + bytes)] {
                                std::memcpy(to, driver.data(), driver.size());
                              });
    return cudaSuccess;
  }
  sparseagg::testing::Queue(stream, Kind::kOther, [=] { std::memcpy(to, from, bytes); });
  if (to_pageable) sparseagg::testing::RunQueued(stream);
  return cudaSuccess;
}
// A source that has failed is the call's error, and no failure of the other device.
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream) {
  const cudaError_t source = Ok(from_device);
  if (source != cudaSuccess) return source;
  const cudaError_t status = Call(DeviceOf(stream), [&](State& state, FakeGpu& gpu) {
    if (state.machine.peer_error != cudaSuccess) return state.machine.peer_error;
    if (DeviceOf(state, to) != to_device || DeviceOf(state, from) != from_device) {
      Misuse(gpu, "a peer copy of memory that is not of these devices");
    }
    gpu.peer_bytes += bytes;
    return cudaSuccess;
  });
  if (status != cudaSuccess) return status;
  sparseagg::testing::Queue(stream, Kind::kOther, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t stream) {
  const int device = DeviceOf(stream);
  const cudaError_t status = Call(device, [&](State& state, FakeGpu&) {
    CheckCurrent(state, device, "a memset");
    CheckMemory(state, device, to, "a memset");
    return cudaSuccess;
  });
  if (status != cudaSuccess) return status;
  sparseagg::testing::Queue(stream, Kind::kOther, [=] { std::memset(to, byte, bytes); });
  return cudaSuccess;
}

}  // extern "C"
