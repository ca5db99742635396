#include "tests/cuda/emulator/runtime.h"

#include <thrust/system/cuda/error.h>
#include <thrust/system_error.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "tests/cuda/emulator/state.h"

namespace sparseagg::testing {

State& TheState() {
  static State state;
  return state;
}

thread_local int current_device = 0;

bool Fails(const FakeGpu& gpu) { return gpu.fails_at_call != 0 && gpu.calls >= gpu.fails_at_call; }

// The device has failed from now on: the caller did what no device can do.
void Misuse(FakeGpu& gpu, const std::string& what) {
  if (gpu.misuse.empty()) gpu.misuse = what;
  if (gpu.fails_at_call == 0) gpu.fails_at_call = 1;
}

// The device whose memory has this address; nothing for other memory.
std::optional<int> DeviceOf(const State& state, const void* memory) {
  const auto above = state.device_memory.upper_bound(const_cast<void*>(memory));
  if (above == state.device_memory.begin()) return std::nullopt;
  const auto& [begin, allocation] = *std::prev(above);
  if (static_cast<const char*>(memory) >= static_cast<const char*>(begin) + allocation.bytes) {
    return std::nullopt;
  }
  return allocation.device;
}

void CheckMemory(State& state, int device, const void* memory, const char* what) {
  if (state.machine.devices < 2) return;
  const std::optional<int> owner = DeviceOf(state, memory);
  if (!owner.has_value() || *owner == device) return;
  Misuse(state.gpus[device],
         std::string(what) + " uses memory of device " + std::to_string(*owner));
}

// Every word that is an address counts as memory that is used.
void CheckWords(State& state, int device, const void* words, size_t bytes, const char* what) {
  const auto* at = static_cast<const std::byte*>(words);
  for (size_t begin = 0; begin + sizeof(void*) <= bytes; begin += sizeof(void*)) {
    const void* word = nullptr;
    std::memcpy(&word, at + begin, sizeof(word));
    CheckMemory(state, device, word, what);
  }
}

void CheckCurrent(State& state, int device, const char* what) {
  if (device == current_device) return;
  Misuse(state.gpus[device],
         std::string(what) + " while device " + std::to_string(current_device) + " is current");
}

// A device that has failed runs nothing more, but memory can still be freed.
cudaError_t DropQueued(int gpu) {
  State& state = TheState();
  const std::lock_guard device(state.device);
  const std::lock_guard lock(state.mutex);
  for (const StreamOwner& stream : state.streams) {
    if (stream->device != gpu) continue;
    for (const Operation& operation : stream->queued) {
      if (operation.kind == Kind::kFree) operation.run();
    }
    stream->queued.clear();
  }
  return state.gpus[gpu].error;
}

StreamOwner Owner(cudaStream_t stream) {
  return stream == nullptr ? TheState().streams[static_cast<size_t>(current_device)]
                           : *reinterpret_cast<StreamOwner*>(stream);
}

int DeviceOf(cudaStream_t stream) { return Owner(stream)->device; }

// Returns whether a stream of the device has a kernel that was queued before operation `number`.
bool HasKernelBefore(const State& state, int device, uint64_t number) {
  return std::any_of(state.streams.begin(), state.streams.end(), [&](const StreamOwner& stream) {
    return stream->device == device &&
           std::any_of(stream->queued.begin(), stream->queued.end(), [&](const Operation& queued) {
             return queued.kind == Kind::kKernel && queued.number < number;
           });
  });
}

// A test's function, which may use the fake GPU.
void CallHook(const std::function<void()>& hook) {
  std::function<void()> f;
  {
    const std::lock_guard lock(TheState().mutex);
    f = hook;
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
      if (next.kind == Kind::kFree && HasKernelBefore(state, stream.device, next.number)) {
        ++state.gpus[stream.device].early_frees;
      }
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
    late = state.machine.late;
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

cudaError_t Ok(int device) {
  return Call(device, [](State&, FakeGpu&) { return cudaSuccess; });
}

cudaError_t WaitForDevice(int device) {
  State& state = TheState();
  std::unique_lock lock(state.mutex);
  FakeGpu& gpu = state.gpus[device];
  ++gpu.calls;
  ++gpu.waits;
  gpu.waiting_threads.insert(std::this_thread::get_id());
  ++state.hanging[device];
  state.changed.notify_all();
  state.changed.wait(lock, [&] { return !state.hangs(device); });
  --state.hanging[device];
  if (!Fails(gpu)) return cudaSuccess;
  lock.unlock();
  return DropQueued(device);
}

cudaError_t Allocate(void** memory, size_t bytes, int device, uint64_t limit, uint64_t& used,
                     std::map<void*, Allocation>& owners) {
  if (used + bytes > limit) return cudaErrorMemoryAllocation;
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*memory, 0xCD, bytes);  // nobody clears it on a device
  used += bytes;
  owners[*memory] = {bytes, device};
  return cudaSuccess;
}

// Forgets an allocation, whose memory is still to be released.
cudaError_t Forget(void* memory, uint64_t& used, std::map<void*, Allocation>& owners,
                   size_t& bytes) {
  const auto found = owners.find(memory);
  if (found == owners.end()) return cudaErrorInvalidValue;
  bytes = found->second.bytes;
  used -= bytes;
  owners.erase(found);
  return cudaSuccess;
}

void Release(void* memory, size_t bytes) {
  std::memset(memory, 0xDD, bytes);  // shows a read after the end
  std::free(memory);
}

FakeMachine& TheFakeMachine() { return TheState().machine; }
FakeGpu& TheFakeGpu(int device) { return TheState().gpus[device]; }

FakeMachine::FakeMachine() : late(std::getenv("SPARSEAGG_LATE_DEVICE") != nullptr) {
  const char* count = std::getenv("SPARSEAGG_EMULATED_DEVICES");
  devices = count == nullptr ? 1 : std::clamp(std::atoi(count), 1, kFakeGpusMax);
}

void Launch(cudaStream_t stream, std::function<void()> kernel) {
  State& state = TheState();
  {
    const std::lock_guard lock(state.mutex);
    CheckCurrent(state, DeviceOf(stream), "a launch");
  }
  Queue(stream, Kind::kKernel, std::move(kernel));
}

void CheckArguments(cudaStream_t stream, const void* arguments, size_t bytes) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  CheckWords(state, DeviceOf(stream), arguments, bytes, "a kernel");
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
  State& state = TheState();
  int device = 0;
  {
    const std::lock_guard lock(state.mutex);
    device = DeviceOf(stream);
    CheckCurrent(state, device, "a library");
  }
  CallHook(state.gpus[device].in_library);
  RunQueued(stream);
}

void ThrowAsThrust(cudaError_t error) {
  throw thrust::system_error(error, thrust::cuda_category());
}

uint64_t Transfers() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  return state.gpus[0].transfers;
}

uint64_t BytesToDevice() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  return state.gpus[0].to_device_bytes;
}

bool IsPinned(const void* memory) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const auto above = state.pinned_memory.upper_bound(const_cast<void*>(memory));
  if (above == state.pinned_memory.begin()) return false;
  const auto& [begin, allocation] = *std::prev(above);
  return static_cast<const char*>(memory) < static_cast<const char*>(begin) + allocation.bytes;
}

void AwaitHang() {
  State& state = TheState();
  std::unique_lock lock(state.mutex);
  state.changed.wait(lock, [&] {
    for (int device = 0; device < kFakeGpusMax; ++device) {
      if (state.hangs(device) && state.hanging[device] > 0) return true;
    }
    return false;
  });
}

void EndHang() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  for (FakeGpu& gpu : state.gpus) gpu.hangs_at_call = 0;
  state.changed.notify_all();
}

void ResetFakeGpu() {
  EndHang();
  const std::lock_guard lock(TheState().mutex);
  State& state = TheState();
  FakeMachine machine;
  machine.pinned_used = state.machine.pinned_used;
  state.machine = machine;
  for (FakeGpu& gpu : state.gpus) {
    FakeGpu fresh;
    fresh.memory_used = gpu.memory_used;
    fresh.memory_peak = gpu.memory_used;
    gpu = fresh;
  }
}

}  // namespace sparseagg::testing
