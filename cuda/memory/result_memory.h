// Page-locked memory for results, so that the device writes them where they stay. Locking pages
// takes longer than the transfer saves, so nobody waits for it: what there was none for is locked
// by a thread of its own and serves the next result of about that size. Memory comes back when the
// result goes.
#ifndef SPARSEAGG_CUDA_MEMORY_RESULT_MEMORY_H_
#define SPARSEAGG_CUDA_MEMORY_RESULT_MEMORY_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "base/host_vector.h"
#include "cuda/memory/staging.h"

namespace sparseagg::gpu {

// Thread-safe. Results hold it, so it may outlive the device.
class ResultMemory : public HostMemory {
 public:
  // Below this a transfer through a buffer costs nothing.
  static constexpr size_t kBytesMin = size_t{1} << 20;

  // Locks at most `budget_bytes`, by `device`.
  explicit ResultMemory(uint64_t budget_bytes, int device = 0);
  ~ResultMemory() override;

  // Page-locked where there is such memory, otherwise ordinary.
  void* Allocate(size_t bytes) noexcept override;
  void Free(void* memory) noexcept override;

  bool IsPinned(const void* memory) const { return memory_.IsPinned(memory); }
  uint64_t locked_bytes() const { return memory_.locked_bytes(); }
  // Waits until what has been asked for is locked, as far as it can be.
  void AwaitLocked();

 private:
  void Loop();

  const int device_;
  PinnedStaging memory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<size_t> wanted_;  // the first one is being locked
  bool stopping_ = false;
  std::thread thread_;  // last: started when the rest is there
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_MEMORY_RESULT_MEMORY_H_
