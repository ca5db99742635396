// Inside of the emulated runtime: what runtime.cc keeps, for the functions of cuda_functions.cc.
#ifndef SPARSEAGG_TESTS_CUDA_EMULATOR_STATE_H_
#define SPARSEAGG_TESTS_CUDA_EMULATOR_STATE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/cuda/emulator/runtime.h"

namespace sparseagg::testing {

enum class Kind { kKernel, kFree, kOther };

struct Operation {
  std::function<void()> run;
  Kind kind;
  uint64_t number;  // in the order of all that was ever queued
};

struct Stream {
  int device = 0;
  std::deque<Operation> queued;
  uint64_t last = 0;  // number of the last operation that was queued here
};
using StreamOwner = std::shared_ptr<Stream>;

// The operations of a stream that were queued when the event was recorded.
struct RecordedEvent {
  int device = 0;
  StreamOwner stream;
  uint64_t last = 0;
};

struct Allocation {
  size_t bytes = 0;
  int device = 0;
};

struct State {
  State() {
    for (int device = 0; device < kFakeGpusMax; ++device) {
      streams.push_back(std::make_shared<Stream>(Stream{.device = device}));
    }
  }

  // Held by the thread that runs operations; before `mutex`.
  std::recursive_mutex device;
  std::mutex mutex;
  FakeMachine machine;
  FakeGpu gpus[kFakeGpusMax];
  std::vector<StreamOwner> streams;  // the first are the default streams of the devices
  uint64_t operations = 0;
  std::map<void*, Allocation> device_memory;
  std::map<void*, Allocation> pinned_memory;
  std::condition_variable changed;
  int hanging[kFakeGpusMax] = {};  // threads in a wait that does not end

  bool hangs(int gpu) const {
    return gpus[gpu].hangs_at_call != 0 && gpus[gpu].calls >= gpus[gpu].hangs_at_call;
  }
};

State& TheState();

// Of the calling thread.
extern thread_local int current_device;

bool Fails(const FakeGpu& gpu);
// The device has failed from now on: the caller did what no device can do.
void Misuse(FakeGpu& gpu, const std::string& what);
// The device whose memory has this address; nothing for other memory.
std::optional<int> DeviceOf(const State& state, const void* memory);
int DeviceOf(cudaStream_t stream);
// Misuse by `device` when the memory is another one's.
void CheckMemory(State& state, int device, const void* memory, const char* what);
// The same for every word that is an address.
void CheckWords(State& state, int device, const void* words, size_t bytes, const char* what);
// Misuse when another device is the thread's current one.
void CheckCurrent(State& state, int device, const char* what);
// A device that has failed runs nothing more, but memory can still be freed.
cudaError_t DropQueued(int gpu);

// Runs f(state, gpu) under the lock unless the call is one that fails.
template <class F>
cudaError_t Call(int device, const F& f) {
  State& state = TheState();
  {
    const std::lock_guard lock(state.mutex);
    FakeGpu& gpu = state.gpus[device];
    ++gpu.calls;
    if (!Fails(gpu)) {
      const cudaError_t status = f(state, gpu);
      if (gpu.misuse.empty()) return status;
    }
  }
  return DropQueued(device);
}
cudaError_t Ok(int device = current_device);
cudaError_t WaitForDevice(int device);

// Calls a function of a test, which may use the fake GPUs.
void CallHook(const std::function<void()>& hook);

StreamOwner Owner(cudaStream_t stream);
// Runs the operations of a stream up to that number.
void RunUpTo(Stream& stream, uint64_t last);
void RunAll(const StreamOwner& stream);
void Queue(cudaStream_t cuda_stream, Kind kind, std::function<void()> run);

cudaError_t Allocate(void** memory, size_t bytes, int device, uint64_t limit, uint64_t& used,
                     std::map<void*, Allocation>& owners);
// Forgets an allocation, whose memory is still to be released.
cudaError_t Forget(void* memory, uint64_t& used, std::map<void*, Allocation>& owners,
                   size_t& bytes);
void Release(void* memory, size_t bytes);

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_CUDA_EMULATOR_STATE_H_
