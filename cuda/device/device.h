// A GPU that a back end uses: its memory, and whether it can still be trusted. A device that has
// failed once stays lost for the life of the process: what CUDA reports after such an error is the
// error again.
#ifndef SPARSEAGG_CUDA_DEVICE_DEVICE_H_
#define SPARSEAGG_CUDA_DEVICE_DEVICE_H_

#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <string>

#include "absl/status/status.h"
#include "cuda/error.h"
#include "cuda/raii/memory_pool.h"

namespace sparseagg::gpu {

// Thread-safe.
class Device {
 public:
  // The thread's current device is this one afterwards. Throws CudaError.
  Device(int ordinal, uint64_t budget_bytes)
      : ordinal_(MakeCurrent(ordinal)), pool_(ordinal, budget_bytes) {}

  int ordinal() const { return ordinal_; }
  MemoryPool& pool() { return pool_; }
  const MemoryPool& pool() const { return pool_; }

  // OK, or UNAVAILABLE (GPU_LOST) with the error that was the end of the device.
  absl::Status health() const;
  // The device is lost; gives health(). `what` is kept from the first call.
  absl::Status Lose(std::string what);

  // Runs f on this device and turns what it throws into a status: RESOURCE_EXHAUSTED
  // (GPU_OUT_OF_MEMORY, GPU_REFUSED), after which the device works on; UNAVAILABLE (GPU_LOST),
  // after which it is lost; RESOURCE_EXHAUSTED (OUT_OF_MEMORY) for memory of the host. `name` is
  // the tensor's.
  template <class F>
  absl::Status Run(const std::string& name, const F& f) {
    if (absl::Status status = health(); !status.ok()) return status;
    try {
      MakeCurrent(ordinal_);
      f();
    } catch (const CudaError& error) {
      return error.out_of_memory() ? OutOfMemory(name, error.what()) : Lose(error.what());
    } catch (const Refused& error) {
      return NotForIt(name, error.what());
    } catch (const std::bad_alloc&) {
      return HostOutOfMemory(name);
    } catch (const std::exception& error) {  // nobody has asked how the device is (Gpu::Run)
      return Lose(error.what());
    }
    return absl::OkStatus();
  }

 private:
  static int MakeCurrent(int ordinal) {
    CheckCuda(cudaSetDevice(ordinal), "cudaSetDevice");
    return ordinal;
  }
  absl::Status OutOfMemory(const std::string& name, const char* what) const;
  static absl::Status NotForIt(const std::string& name, const char* what);
  static absl::Status HostOutOfMemory(const std::string& name);

  const int ordinal_;
  MemoryPool pool_;
  mutable std::mutex mutex_;
  std::string lost_;  // what was the end; empty: healthy
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_DEVICE_DEVICE_H_
