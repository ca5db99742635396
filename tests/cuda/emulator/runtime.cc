#include "tests/cuda/emulator/runtime.h"

#include <thrust/system/cuda/error.h>
#include <thrust/system_error.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

namespace sparseagg::testing {
namespace {

struct State {
  std::mutex mutex;
  FakeGpu gpu;
  std::map<void*, size_t> device_memory;
  std::map<void*, size_t> pinned_memory;
  std::condition_variable changed;
  int hanging = 0;  // threads in a wait that does not end

  bool hangs() const { return gpu.hangs_at_call != 0 && gpu.calls >= gpu.hangs_at_call; }
};

State& TheState() {
  static State state;
  return state;
}

// Runs f under the lock unless the call is one that fails.
template <class F>
cudaError_t Call(const F& f) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  ++state.gpu.calls;
  if (state.gpu.fails_at_call != 0 && state.gpu.calls >= state.gpu.fails_at_call) {
    return state.gpu.error;
  }
  return f(state);
}

cudaError_t Ok() {
  return Call([](State&) { return cudaSuccess; });
}

cudaError_t WaitForDevice() {
  State& state = TheState();
  std::unique_lock lock(state.mutex);
  ++state.gpu.calls;
  ++state.gpu.waits;
  state.gpu.waiting_threads.insert(std::this_thread::get_id());
  ++state.hanging;
  state.changed.notify_all();
  state.changed.wait(lock, [&] { return !state.hangs(); });
  --state.hanging;
  if (state.gpu.fails_at_call != 0 && state.gpu.calls >= state.gpu.fails_at_call) {
    return state.gpu.error;
  }
  return cudaSuccess;
}

cudaError_t Allocate(void** memory, size_t bytes, uint64_t limit, uint64_t& used,
                     std::map<void*, size_t>& owners) {
  if (used + bytes > limit) return cudaErrorMemoryAllocation;
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*memory, 0xCD, bytes);  // nobody clears it on a device
  used += bytes;
  owners[*memory] = bytes;
  return cudaSuccess;
}

cudaError_t Free(void* memory, uint64_t& used, std::map<void*, size_t>& owners) {
  const auto found = owners.find(memory);
  if (found == owners.end()) return cudaErrorInvalidValue;
  used -= found->second;
  owners.erase(found);
  std::free(memory);
  return cudaSuccess;
}

}  // namespace

FakeGpu& TheFakeGpu() { return TheState().gpu; }

void CallLibrary() {
  State& state = TheState();
  std::function<void()> in_library;
  {
    const std::lock_guard lock(state.mutex);
    in_library = state.gpu.in_library;
  }
  if (in_library) in_library();
}

void ThrowAsThrust(cudaError_t error) {
  throw thrust::system_error(error, thrust::cuda_category());
}

uint64_t Transfers() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  return state.gpu.transfers;
}

bool IsPinned(const void* memory) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const auto above = state.pinned_memory.upper_bound(const_cast<void*>(memory));
  if (above == state.pinned_memory.begin()) return false;
  const auto& [begin, bytes] = *std::prev(above);
  return static_cast<const char*>(memory) < static_cast<const char*>(begin) + bytes;
}

void AwaitHang() {
  State& state = TheState();
  std::unique_lock lock(state.mutex);
  state.changed.wait(lock, [&] { return state.hangs() && state.hanging > 0; });
}

void EndHang() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  state.gpu.hangs_at_call = 0;
  state.changed.notify_all();
}

void ResetFakeGpu() {
  EndHang();
  const std::lock_guard lock(TheState().mutex);
  FakeGpu& gpu = TheFakeGpu();
  FakeGpu fresh;
  fresh.memory_used = gpu.memory_used;
  fresh.memory_peak = gpu.memory_used;
  fresh.pinned_used = gpu.pinned_used;
  gpu = fresh;
}

}  // namespace sparseagg::testing

using sparseagg::testing::Allocate;
using sparseagg::testing::Call;
using sparseagg::testing::Free;
using sparseagg::testing::Ok;
using sparseagg::testing::State;
using sparseagg::testing::WaitForDevice;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return Call([&](State& state) {
    if (state.gpu.driver_version < CUDART_VERSION) return cudaErrorInsufficientDriver;
    *count = state.gpu.devices;
    return state.gpu.devices > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return Call([&](State& state) {
    *properties = {};
    std::strcpy(properties->name, "an emulated GPU");
    properties->major = device == 0 ? state.gpu.compute_major : state.gpu.later_compute_major;
    properties->multiProcessorCount = 2;
    properties->l2CacheSize = 1 << 20;
    properties->totalGlobalMem = state.gpu.memory_bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return Call([&](State& state) {
    *version = state.gpu.driver_version;
    return cudaSuccess;
  });
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return Ok();
}

cudaError_t cudaSetDevice(int) { return Ok(); }
cudaError_t cudaGetLastError() { return Ok(); }
cudaError_t cudaPeekAtLastError() { return Ok(); }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "an injected fault";
}
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorInjected";
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return Ok();
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return Ok(); }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return WaitForDevice(); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return Ok(); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = nullptr;
  return Ok();
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = nullptr;
  return Ok();
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return Ok(); }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return Ok(); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return WaitForDevice(); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = 1;
  return Ok();
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  *pool = nullptr;
  return Ok();
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t) { return Ok(); }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return Ok(); }

cudaError_t cudaMallocFromPoolAsync(void** memory, size_t bytes, cudaMemPool_t, cudaStream_t) {
  return Call([&](State& state) {
    const cudaError_t status =
        Allocate(memory, bytes, state.gpu.memory_bytes, state.gpu.memory_used, state.device_memory);
    state.gpu.memory_peak = std::max(state.gpu.memory_peak, state.gpu.memory_used);
    return status;
  });
}
// Freeing works after a failure, too: the process must not leak what it can free.
cudaError_t cudaFreeAsync(void* memory, cudaStream_t) {
  State& state = sparseagg::testing::TheState();
  const std::lock_guard lock(state.mutex);
  return Free(memory, state.gpu.memory_used, state.device_memory);
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return Call([&](State& state) {
    return Allocate(memory, bytes, state.gpu.pinned_bytes, state.gpu.pinned_used,
                    state.pinned_memory);
  });
}
cudaError_t cudaFreeHost(void* memory) {
  State& state = sparseagg::testing::TheState();
  const std::lock_guard lock(state.mutex);
  return Free(memory, state.gpu.pinned_used, state.pinned_memory);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  const bool waits = (kind == cudaMemcpyDeviceToHost && !sparseagg::testing::IsPinned(to)) ||
                     (kind == cudaMemcpyHostToDevice && !sparseagg::testing::IsPinned(from));
  if (waits) {
    const cudaError_t status = WaitForDevice();
    if (status != cudaSuccess) return status;
  }
  return Call([&](State& state) {
    std::memcpy(to, from, bytes);
    ++state.gpu.transfers;
    return cudaSuccess;
  });
}
cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t) {
  return Call([&](State&) {
    std::memset(to, byte, bytes);
    return cudaSuccess;
  });
}

}  // extern "C"
