// Page-locked host memory: the only kind that the device copies from without a detour and without
// holding up the caller. All devices may copy from it; the calling thread's current one locks it.
#ifndef SPARSEAGG_CUDA_RAII_PINNED_BUFFER_H_
#define SPARSEAGG_CUDA_RAII_PINNED_BUFFER_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "cuda/error.h"

namespace sparseagg::gpu {

class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  // Throws CudaError when the system locks no more pages. Slow: for buffers that are kept.
  explicit PinnedBuffer(size_t bytes) : bytes_(bytes) {
    CheckCuda(cudaHostAlloc(&data_, bytes, cudaHostAllocPortable), "cudaHostAlloc");
  }
  ~PinnedBuffer() {
    if (data_ != nullptr) cudaFreeHost(data_);
  }
  PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_RAII_PINNED_BUFFER_H_
