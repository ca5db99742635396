// GPUs for tests: the functions of the CUDA runtime that the back end calls, over host memory. With
// the kernels compiled for the host (launch.cuh beside this), the whole back end runs on a machine
// without a GPU, and can be made to fail where a real device would, and to be late: work that is
// queued on a stream runs when the host waits for it and not before, as late as a device may. A
// wait that is missing then shows as a wrong result; memory that goes too early, as reads of 0xDD
// or as AddressSanitizer's report.
//
// Streams, events and memory belong to a device. A call for a device that is not the thread's
// current one, and memory of one device that another one uses without a peer copy, are a misuse:
// the device that was asked has failed from then on. (Kernels are searched for such memory in what
// they are given, not in what they load.)
#ifndef SPARSEAGG_TESTS_CUDA_EMULATOR_RUNTIME_H_
#define SPARSEAGG_TESTS_CUDA_EMULATOR_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <thread>

namespace sparseagg::testing {

inline constexpr int kFakeGpusMax = 8;

// What the GPUs share.
struct FakeMachine {
  FakeMachine();

  // Initially whether the environment has SPARSEAGG_LATE_DEVICE. Libraries run what is queued on
  // their stream, as if they waited.
  bool late;
  int devices;                                // initially SPARSEAGG_EMULATED_DEVICES, or 1
  int driver_version = CUDART_VERSION;        // 0: there is no driver
  uint64_t pinned_bytes = uint64_t{8} << 30;  // what the system locks at most
  bool peer_access = true;                    // between all pairs of devices
  cudaError_t peer_error = cudaSuccess;       // of every peer copy

  // Called where pages are locked and unlocked.
  std::function<void()> in_page_locking;

  uint64_t pinned_used = 0;
};

struct FakeGpu {
  int compute_major = 9;
  uint64_t memory_bytes = uint64_t{8} << 30;
  // From the call with this number on (1 is the next one), every call fails with `error`, as after
  // a sticky error. 0: never.
  uint64_t fails_at_call = 0;
  cudaError_t error = cudaErrorIllegalAddress;
  // From the call with this number on, waits for the device do not end, as on a device that hangs;
  // they end with ResetFakeGpu(). 0: never.
  uint64_t hangs_at_call = 0;

  // Called where the device thread calls Thrust or cuSPARSE, and may throw what they throw.
  std::function<void()> in_library;

  // Counted since Reset().
  uint64_t calls = 0;
  uint64_t memory_used = 0;
  uint64_t memory_peak = 0;
  uint64_t transfers = 0;
  uint64_t to_device_bytes = 0;  // that transfers have taken there
  uint64_t peer_bytes = 0;       // that peer copies have taken there
  // Times that the host waited for the device: for a stream, for an event, or in a copy from or to
  // host memory that is not page-locked, as a real one may.
  uint64_t waits = 0;
  std::set<std::thread::id> waiting_threads;  // that did so
  // Memory that was given back on one stream while another one had kernels queued from before. Some
  // of those may read it.
  uint64_t early_frees = 0;
  std::string misuse;  // the first one; empty: none
  bool used = false;   // whether it got a stream, memory or pages of the host
};

// Not while calls run in other threads.
FakeMachine& TheFakeMachine();
FakeGpu& TheFakeGpu(int device = 0);
// Forgets failures and counts of all devices; keeps what is allocated. Thread-safe.
void ResetFakeGpu();
// Runs `kernel` in the order of the stream.
void Launch(cudaStream_t stream, std::function<void()> kernel);
// Looks for memory of other devices in what a kernel of that stream is given.
void CheckArguments(cudaStream_t stream, const void* arguments, size_t bytes);
// Runs what is queued on the stream.
void RunQueued(cudaStream_t stream);
// What the fake libraries begin with: `in_library`, and what is queued on their stream.
void CallLibrary(cudaStream_t stream);
// Throws what Thrust would throw; `in_library` may call it.
[[noreturn]] void ThrowAsThrust(cudaError_t error);
// Counters of the first fake GPU, which other threads may use meanwhile.
uint64_t Transfers();
uint64_t BytesToDevice();
// Returns whether `memory` lies in page-locked memory.
bool IsPinned(const void* memory);
// Blocks until a wait for a device does not end. Thread-safe.
void AwaitHang();
// The devices answer again: waits that did not end do. Thread-safe.
void EndHang();

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_CUDA_EMULATOR_RUNTIME_H_
