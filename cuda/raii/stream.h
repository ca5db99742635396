// Owners of a CUDA stream and of an event. Destructors do not throw: an error there has been, or
// will be, reported by a checked call.
#ifndef SPARSEAGG_CUDA_RAII_STREAM_H_
#define SPARSEAGG_CUDA_RAII_STREAM_H_

#include <cuda_runtime_api.h>

#include <utility>

#include "cuda/error.h"

namespace sparseagg::gpu {

// A point in a stream that others can wait for (Queue::Wait). Does not time.
class Event {
 public:
  Event() {
    CheckCuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming),
              "cudaEventCreateWithFlags");
  }
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }

  void Record(cudaStream_t cuda_stream) {
    CheckCuda(cudaEventRecord(event_, cuda_stream), "cudaEventRecord");
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// A stream that does not synchronise with the default stream.
class Stream {
 public:
  Stream() {
    CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
              "cudaStreamCreateWithFlags");
  }
  ~Stream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  // Work that is queued from now on runs after `event`. Does not block.
  void WaitFor(const Event& event) const {
    CheckCuda(cudaStreamWaitEvent(stream_, event.get(), 0), "cudaStreamWaitEvent");
  }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_RAII_STREAM_H_
