// What the aggregators of a back end share: the device, its queues and its thread. A device fails
// in two ways. A call reports an error, which then every call does; or a wait does not end, and the
// thread that waits is given up: it wakes to an exception, if ever.
#ifndef SPARSEAGG_CUDA_DEVICE_GPU_H_
#define SPARSEAGG_CUDA_DEVICE_GPU_H_

#include <algorithm>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "cuda/device/context.h"
#include "cuda/device/device.h"
#include "cuda/device/device_thread.h"
#include "cuda/device/watchdog.h"
#include "cuda/tuning.h"
#include "sparse/backend.h"

namespace sparseagg::gpu {

// Thread-safe. Throws CudaError when it is made. Must not end while it Hangs(): its thread uses it.
class Gpu {
 public:
  // `staging`: of several devices; null: its own, of at most `pinned_bytes`.
  Gpu(int ordinal, uint64_t budget_bytes, uint64_t pinned_bytes, const Tuning& tuning,
      std::shared_ptr<PinnedStaging> staging = nullptr)
      : tuning_(tuning),
        device_(ordinal, budget_bytes),
        context_(device_.pool(), pinned_bytes, std::move(staging)),
        reductions_(context_.queue.waits(), tuning.wait_max, tuning.clock),
        transfers_(context_.uploads.queue.waits(), tuning.wait_max, tuning.clock) {}

  const Tuning& tuning() const { return tuning_; }
  // A batch is reduced when it has this number of bytes.
  uint64_t batch_bytes() const {
    return std::min(tuning_.batch_bytes,
                    device_.pool().budget_bytes() / tuning_.batch_share_of_memory);
  }
  // Whether stats() has the staging memory, which several devices may share.
  void CountsStaging(bool counts) { counts_staging_ = counts; }
  Device& device() { return device_; }
  Context& context() { return context_; }
  DeviceThread& thread() { return thread_; }

  // Returns whether the thread waits for a device that does not answer. Then the device is lost.
  bool Hangs();
  // OK or UNAVAILABLE (GPU_LOST).
  absl::Status health();
  DeviceStats stats() const;
  // As Device::Run(), on its thread. An exception of a library (Thrust's, cuSPARSE's) is no word on
  // the device: that is asked, and where it still works, it has refused the tensor.
  template <class F>
  absl::Status Run(const std::string& name, const F& f) {
    return device_.Run(name, [&] {
      try {
        f();
      } catch (const CudaError&) {
        throw;
      } catch (const std::bad_alloc&) {
        throw;
      } catch (const std::exception& error) {
        context_.queue.Synchronize();  // throws what was the end of the device
        cudaGetLastError();            // of no later launch
        throw Refused(error.what());
      }
    });
  }
  // Waits for a task of the thread. GPU_LOST when the device hangs: the task may be in the middle,
  // and goes on to its end if the device ever answers, so it must own whatever it uses.
  absl::Status Await(std::future<absl::Status> task);

 private:
  const Tuning tuning_;
  bool counts_staging_ = true;
  Device device_;
  Context context_;
  Watchdog reductions_;
  Watchdog transfers_;
  DeviceThread thread_;  // the last, so it ends first
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_DEVICE_GPU_H_
