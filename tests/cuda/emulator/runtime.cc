#include "tests/cuda/emulator/runtime.h"

#include <thrust/system/cuda/error.h>
#include <thrust/system_error.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace sparseagg::testing {
namespace {

enum class Kind { kKernel, kFree, kOther };

struct Operation {
  std::function<void()> run;
  Kind kind;
  uint64_t number;  // in the order of all that was ever queued
};

struct Stream {
  std::deque<Operation> queued;
  uint64_t last = 0;  // number of the last operation that was queued here
};
using StreamOwner = std::shared_ptr<Stream>;

// The operations of a stream that were queued when the event was recorded.
struct RecordedEvent {
  StreamOwner stream;
  uint64_t last = 0;
};

struct State {
  // Held by the thread that runs operations; before `mutex`.
  std::recursive_mutex device;
  std::mutex mutex;
  FakeGpu gpu;
  std::vector<StreamOwner> streams{std::make_shared<Stream>()};  // the first is the default stream
  uint64_t operations = 0;
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

bool Fails(const State& state) {
  return state.gpu.fails_at_call != 0 && state.gpu.calls >= state.gpu.fails_at_call;
}

// A device that has failed runs nothing more, but memory can still be freed.
cudaError_t DropQueued() {
  State& state = TheState();
  const std::lock_guard device(state.device);
  const std::lock_guard lock(state.mutex);
  for (const StreamOwner& stream : state.streams) {
    for (const Operation& operation : stream->queued) {
      if (operation.kind == Kind::kFree) operation.run();
    }
    stream->queued.clear();
  }
  return state.gpu.error;
}

// Runs f under the lock unless the call is one that fails.
template <class F>
cudaError_t Call(const F& f) {
  State& state = TheState();
  {
    const std::lock_guard lock(state.mutex);
    ++state.gpu.calls;
    if (!Fails(state)) return f(state);
  }
  return DropQueued();
}

StreamOwner Owner(cudaStream_t stream) {
  return stream == nullptr ? TheState().streams[0] : *reinterpret_cast<StreamOwner*>(stream);
}

// Returns whether a stream has a kernel that was queued before operation `number`.
bool HasKernelBefore(const State& state, uint64_t number) {
  return std::any_of(state.streams.begin(), state.streams.end(), [&](const StreamOwner& stream) {
    return std::any_of(stream->queued.begin(), stream->queued.end(), [&](const Operation& queued) {
      return queued.kind == Kind::kKernel && queued.number < number;
    });
  });
}

// A test's function, which may use the fake GPU.
void CallHook(std::function<void()> FakeGpu::*hook) {
  State& state = TheState();
  std::function<void()> f;
  {
    const std::lock_guard lock(state.mutex);
    f = state.gpu.*hook;
  }
  if (f) f();
}

// Runs the operations of a stream up to that number.
void RunUpTo(Stream& stream, uint64_t last) {
  State& state = TheState();
  const std::lock_guard device(state.device);
  for (;;) {
    Operation next;
    {
      const std::lock_guard lock(state.mutex);
      if (stream.queued.empty() || stream.queued.front().number > last) return;
      next = std::move(stream.queued.front());
      stream.queued.pop_front();
      if (next.kind == Kind::kFree && HasKernelBefore(state, next.number)) ++state.gpu.early_frees;
    }
    next.run();
  }
}

void RunAll(const StreamOwner& stream) {
  uint64_t last = 0;
  {
    const std::lock_guard lock(TheState().mutex);
    last = stream->last;
  }
  RunUpTo(*stream, last);
}

void Queue(cudaStream_t cuda_stream, Kind kind, std::function<void()> run) {
  State& state = TheState();
  StreamOwner stream;
  bool late = false;
  {
    const std::lock_guard lock(state.mutex);
    stream = Owner(cuda_stream);
    late = state.gpu.late;
    if (late || !stream->queued.empty()) {
      stream->last = ++state.operations;
      stream->queued.push_back({std::exchange(run, nullptr), kind, stream->last});
    }
  }
  if (late) return;
  if (run != nullptr) {
    run();  // beside what other streams do
  } else {
    RunAll(stream);
  }
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
  if (!Fails(state)) return cudaSuccess;
  lock.unlock();
  return DropQueued();
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

// Forgets an allocation, whose memory is still to be released.
cudaError_t Forget(void* memory, uint64_t& used, std::map<void*, size_t>& owners, size_t& bytes) {
  const auto found = owners.find(memory);
  if (found == owners.end()) return cudaErrorInvalidValue;
  bytes = found->second;
  used -= bytes;
  owners.erase(found);
  return cudaSuccess;
}

void Release(void* memory, size_t bytes) {
  std::memset(memory, 0xDD, bytes);  // shows a read after the end
  std::free(memory);
}

}  // namespace

FakeGpu& TheFakeGpu() { return TheState().gpu; }

FakeGpu::FakeGpu() : late(std::getenv("SPARSEAGG_LATE_DEVICE") != nullptr) {}

void Launch(cudaStream_t stream, std::function<void()> kernel) {
  Queue(stream, Kind::kKernel, std::move(kernel));
}

void RunQueued(cudaStream_t stream) {
  StreamOwner owner;
  {
    const std::lock_guard lock(TheState().mutex);
    owner = Owner(stream);
  }
  RunAll(owner);
}

void CallLibrary(cudaStream_t stream) {
  CallHook(&FakeGpu::in_library);
  RunQueued(stream);
}

void ThrowAsThrust(cudaError_t error) {
  throw thrust::system_error(error, thrust::cuda_category());
}

uint64_t Transfers() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  return state.gpu.transfers;
}

uint64_t BytesToDevice() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  return state.gpu.to_device_bytes;
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
using sparseagg::testing::CallHook;
using sparseagg::testing::FakeGpu;
using sparseagg::testing::Forget;
using sparseagg::testing::Kind;
using sparseagg::testing::Ok;
using sparseagg::testing::RecordedEvent;
using sparseagg::testing::Release;
using sparseagg::testing::State;
using sparseagg::testing::Stream;
using sparseagg::testing::StreamOwner;
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
  return Call([&](State& state) {
    state.streams.push_back(std::make_shared<Stream>());
    *stream = reinterpret_cast<cudaStream_t>(new StreamOwner(state.streams.back()));
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t status = Ok();
  const std::unique_ptr<StreamOwner> owner(reinterpret_cast<StreamOwner*>(stream));
  sparseagg::testing::RunAll(*owner);
  State& state = sparseagg::testing::TheState();
  const std::lock_guard lock(state.mutex);
  std::erase(state.streams, *owner);
  return status;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const cudaError_t status = WaitForDevice();
  if (status == cudaSuccess) sparseagg::testing::RunQueued(stream);
  return status;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  RecordedEvent recorded;
  const cudaError_t status = Call([&](State&) {
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
  return Call([&](State&) {
    *event = reinterpret_cast<cudaEvent_t>(new RecordedEvent);
    return cudaSuccess;
  });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<RecordedEvent*>(event);
  return Ok();
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return Call([&](State&) {
    const StreamOwner owner = sparseagg::testing::Owner(stream);
    *reinterpret_cast<RecordedEvent*>(event) = {owner, owner->last};
    return cudaSuccess;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const cudaError_t status = WaitForDevice();
  if (status != cudaSuccess) return status;
  RecordedEvent recorded;
  {
    const std::lock_guard lock(sparseagg::testing::TheState().mutex);
    recorded = *reinterpret_cast<RecordedEvent*>(event);
  }
  if (recorded.stream != nullptr) sparseagg::testing::RunUpTo(*recorded.stream, recorded.last);
  return cudaSuccess;
}
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
// Freeing works after a failure, too: the process must not leak what it can free. Others can have
// the memory from now on, as of a pool, though not its place before the stream comes to it.
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  State& state = sparseagg::testing::TheState();
  size_t bytes = 0;
  {
    const std::lock_guard lock(state.mutex);
    const cudaError_t status = Forget(memory, state.gpu.memory_used, state.device_memory, bytes);
    if (status != cudaSuccess) return status;
  }
  sparseagg::testing::Queue(stream, Kind::kFree, [memory, bytes] { Release(memory, bytes); });
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  CallHook(&FakeGpu::in_page_locking);
  return Call([&](State& state) {
    return Allocate(memory, bytes, state.gpu.pinned_bytes, state.gpu.pinned_used,
                    state.pinned_memory);
  });
}
cudaError_t cudaFreeHost(void* memory) {
  CallHook(&FakeGpu::in_page_locking);
  State& state = sparseagg::testing::TheState();
  size_t bytes = 0;
  const std::lock_guard lock(state.mutex);
  const cudaError_t status = Forget(memory, state.gpu.pinned_used, state.pinned_memory, bytes);
  if (status == cudaSuccess) Release(memory, bytes);
  return status;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const bool to_pageable = kind == cudaMemcpyDeviceToHost && !sparseagg::testing::IsPinned(to);
  const bool from_pageable = kind == cudaMemcpyHostToDevice && !sparseagg::testing::IsPinned(from);
  if (to_pageable || from_pageable) {
    const cudaError_t status = WaitForDevice();
    if (status != cudaSuccess) return status;
  }
  bool late = false;
  const cudaError_t status = Call([&](State& state) {
    ++state.gpu.transfers;
    if (kind == cudaMemcpyHostToDevice) state.gpu.to_device_bytes += bytes;
    late = state.gpu.late;
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
cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t stream) {
  const cudaError_t status = Ok();
  if (status != cudaSuccess) return status;
  sparseagg::testing::Queue(stream, Kind::kOther, [=] { std::memset(to, byte, bytes); });
  return cudaSuccess;
}

}  // extern "C"
