// Device memory, ordered on streams and bounded by a budget. Memory that is freed stays in the pool
// for the next allocation, so that a batch after the first costs no call into the driver.
#ifndef SPARSEAGG_CUDA_RAII_MEMORY_POOL_H_
#define SPARSEAGG_CUDA_RAII_MEMORY_POOL_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sparseagg::gpu {

// Thread-safe. Outlives what it allocated.
class MemoryPool {
 public:
  // `budget_bytes`: allocations beyond it fail like those beyond the device's memory.
  MemoryPool(int device, uint64_t budget_bytes);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Usable by what is queued on `cuda_stream` after the call, at least 256-byte aligned; null for 0
  // bytes. Throws CudaError(cudaErrorMemoryAllocation) when there is no memory.
  void* Allocate(size_t bytes, cudaStream_t cuda_stream);
  // After everything queued on `cuda_stream`. Does not throw or synchronise. The thread's current
  // device is this one afterwards.
  void Free(void* memory, size_t bytes, cudaStream_t cuda_stream) noexcept;

  // Lets the device `other` copy from this memory without a detour through the host, where the two
  // can do that.
  void AllowAccess(int other) noexcept;

  int device() const { return device_; }
  uint64_t budget_bytes() const { return budget_bytes_; }
  uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  uint64_t free_bytes() const;

 private:
  const int device_;
  const uint64_t budget_bytes_;
  std::atomic<uint64_t> used_bytes_{0};
  cudaMemPool_t pool_ = nullptr;
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_RAII_MEMORY_POOL_H_
