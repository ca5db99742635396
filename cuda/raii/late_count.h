// A number on its way from the device: queued now, read after the next wait for the queue, which it
// does not cause.
#ifndef SPARSEAGG_CUDA_RAII_LATE_COUNT_H_
#define SPARSEAGG_CUDA_RAII_LATE_COUNT_H_

#include <cstdint>
#include <cstring>

#include "cuda/error.h"
#include "cuda/raii/pinned_buffer.h"
#include "cuda/raii/queue.h"

namespace sparseagg::gpu {

// For one thread at a time.
class LateCount {
 public:
  // Where the system locks no more pages, Fetch() waits.
  LateCount() {
    try {
      memory_ = PinnedBuffer(sizeof(uint64_t));
    } catch (const CudaError&) {
    }
  }

  // Throws CudaError.
  void Fetch(Queue& queue, const uint64_t* from) {
    if (memory_.data() == nullptr) {
      value_ = queue.Read(from);
    } else {
      queue.Download(reinterpret_cast<uint64_t*>(memory_.data()), from, 1);
    }
  }

  // REQUIRES: everything queued up to the last Fetch() is done.
  uint64_t Get() const {
    uint64_t value = value_;
    if (memory_.data() != nullptr) std::memcpy(&value, memory_.data(), sizeof(value));
    return value;
  }

 private:
  PinnedBuffer memory_;
  uint64_t value_ = 0;
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_RAII_LATE_COUNT_H_
