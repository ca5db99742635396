#include "cuda/raii/memory_pool.h"

#include <limits>

#include "cuda/error.h"

namespace sparseagg::gpu {

MemoryPool::MemoryPool(int device, uint64_t budget_bytes)
    : device_(device), budget_bytes_(budget_bytes) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  CheckCuda(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate");
  // Keep what was freed: giving it back to the driver would synchronise.
  uint64_t threshold = std::numeric_limits<uint64_t>::max();
  const cudaError_t set =
      cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold);
  if (set != cudaSuccess) cudaMemPoolDestroy(pool_);
  CheckCuda(set, "cudaMemPoolSetAttribute");
}

MemoryPool::~MemoryPool() { cudaMemPoolDestroy(pool_); }

void* MemoryPool::Allocate(size_t bytes, cudaStream_t cuda_stream) {
  if (bytes == 0) return nullptr;
  const uint64_t before = used_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (before + bytes < before || before + bytes > budget_bytes_) {
    used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    throw CudaError(cudaErrorMemoryAllocation, "device memory budget");
  }
  void* memory = nullptr;
  const cudaError_t status = cudaMallocFromPoolAsync(&memory, bytes, pool_, cuda_stream);
  if (status != cudaSuccess) used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  CheckCuda(status, "cudaMallocFromPoolAsync");
  return memory;
}

void MemoryPool::Free(void* memory, size_t bytes, cudaStream_t cuda_stream) noexcept {
  if (memory == nullptr) return;
  cudaSetDevice(device_);  // any thread may be the one that frees
  cudaFreeAsync(memory, cuda_stream);
  used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

void MemoryPool::AllowAccess(int other) noexcept {
  int can = 0;
  if (cudaDeviceCanAccessPeer(&can, other, device_) == cudaSuccess && can != 0) {
    cudaMemAccessDesc access = {};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = other;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    cudaMemPoolSetAccess(pool_, &access, 1);
  }
  cudaGetLastError();  // peer copies work without it
}

uint64_t MemoryPool::free_bytes() const {
  const uint64_t used = used_bytes();
  return used < budget_bytes_ ? budget_bytes_ - used : 0;
}

}  // namespace sparseagg::gpu
