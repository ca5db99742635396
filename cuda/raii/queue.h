// A queue of work on the device: a stream and the memory whose life is ordered on it. Everything
// that launches kernels takes a Queue, so that nothing runs on the default stream.
#ifndef SPARSEAGG_CUDA_RAII_QUEUE_H_
#define SPARSEAGG_CUDA_RAII_QUEUE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "cuda/error.h"
#include "cuda/raii/memory_pool.h"
#include "cuda/raii/queued_work.h"
#include "cuda/raii/stream.h"
#include "cuda/raii/waits.h"

namespace sparseagg::gpu {

class Queue;

// An array in device memory, owned; freed in the order of its queue. The queue must outlive it.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(Queue& queue, size_t size);
  ~DeviceArray() { Reset(); }
  DeviceArray(DeviceArray&& other) noexcept { *this = std::move(other); }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(queue_, other.queue_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  void Reset() noexcept;

 private:
  Queue* queue_ = nullptr;
  T* data_ = nullptr;
  size_t size_ = 0;
};

// For one thread at a time, which is the only one that waits; but for waits().
class Queue {
 public:
  explicit Queue(MemoryPool& pool) : pool_(pool) {}

  MemoryPool& pool() { return pool_; }
  const Stream& stream() const { return stream_; }
  cudaStream_t cuda_stream() const { return stream_.get(); }
  // Thread-safe. Everything that waits for the device goes through it, so that a device that hangs
  // is noticed (watchdog.h).
  Waits& waits() { return waits_; }
  // What a library keeps for its calls on this queue (cuSPARSE's handle, cuda/cusparse.cc), made
  // when first needed; goes before the stream.
  std::shared_ptr<void>& handle() { return handle_; }
  // Thread-safe. Errors of this queue's calls, other than of memory that is out, tell it.
  const QueuedWork& work() const { return work_; }

  // Notes a library's function that is about to be called on this queue.
  void Calls(const char* name) { work_.Note(name); }
  // Notes the kernel that has just been launched. Throws when the launch has failed.
  void Launched(const char* name) {
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess) Check(status, ("launch of " + ReadableName(name)).c_str());
    work_.Note(name);
  }
  // Throws when a call for this queue has failed.
  void Check(cudaError_t code, const char* what) const {
    if (code == cudaSuccess) return;
    cudaGetLastError();  // as CheckCuda()
    throw CudaError(code, what, code == cudaErrorMemoryAllocation ? "" : work_.Describe());
  }

  // Memory of the pool, in the order of the queue.
  void* Allocate(size_t bytes) {
    try {
      return pool_.Allocate(bytes, cuda_stream());
    } catch (const CudaError& error) {
      if (!error.out_of_memory()) Check(error.code(), "cudaMallocFromPoolAsync");
      throw;
    }
  }
  void Free(void* memory, size_t bytes) noexcept { pool_.Free(memory, bytes, cuda_stream()); }

  // Blocks until everything queued is done.
  void Synchronize() {
    Check(waits_.During([&] { return cudaStreamSynchronize(cuda_stream()); }),
          "cudaStreamSynchronize");
    work_.Forget();
  }
  // Blocks until `event`, of any queue, is reached.
  void Wait(const Event& event) {
    Check(waits_.During([&] { return cudaEventSynchronize(event.get()); }), "cudaEventSynchronize");
  }

  // From page-locked memory, which must stay until the copy is done; does not wait.
  template <class T>
  void Upload(T* to, const T* from, size_t size) {
    Copy(to, from, size * sizeof(T), cudaMemcpyHostToDevice);
  }
  // From ordinary memory, which may go after the call. CUDA may wait for everything queued before,
  // so this is a wait, for the thread that may wait.
  template <class T>
  void UploadPageable(T* to, const T* from, size_t size) {
    if (size == 0) return;
    Check(waits_.During([&] {
      return cudaMemcpyAsync(to, from, size * sizeof(T), cudaMemcpyHostToDevice, cuda_stream());
    }),
          "cudaMemcpyAsync");
  }
  // To page-locked memory; does not wait.
  template <class T>
  void Download(T* to, const T* from, size_t size) {
    Copy(to, from, size * sizeof(T), cudaMemcpyDeviceToHost);
  }
  template <class T>
  void CopyOnDevice(T* to, const T* from, size_t size) {
    Copy(to, from, size * sizeof(T), cudaMemcpyDeviceToDevice);
  }
  // From memory of the device of another pool, which must stay until the copy is done. Without a
  // link between the two devices the driver takes it through the host and may wait, so this is a
  // wait.
  template <class T>
  void CopyFromDevice(T* to, int device, const T* from, size_t size) {
    if (size == 0) return;
    Check(waits_.During([&] {
      return cudaMemcpyPeerAsync(to, pool_.device(), from, device, size * sizeof(T), cuda_stream());
    }),
          "cudaMemcpyPeerAsync");
  }
  // Sets every byte.
  template <class T>
  void Fill(T* to, int byte, size_t size) {
    if (size == 0) return;
    Check(cudaMemsetAsync(to, byte, size * sizeof(T), cuda_stream()), "cudaMemsetAsync");
  }
  // One value from the device; waits for everything queued before.
  template <class T>
  T Read(const T* from) {
    T value;
    ReadInto(&value, from, 1);
    return value;
  }
  // The same for several, to ordinary memory: the copy itself waits there.
  template <class T>
  void ReadInto(T* to, const T* from, size_t size) {
    Check(waits_.During([&] {
      const cudaError_t status =
          cudaMemcpyAsync(to, from, size * sizeof(T), cudaMemcpyDeviceToHost, cuda_stream());
      return status == cudaSuccess ? cudaStreamSynchronize(cuda_stream()) : status;
    }),
          "cudaMemcpyAsync");
    work_.Forget();
  }

 private:
  void Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    if (bytes == 0) return;
    Check(cudaMemcpyAsync(to, from, bytes, kind, cuda_stream()), "cudaMemcpyAsync");
  }

  MemoryPool& pool_;
  Stream stream_;
  Waits waits_;
  QueuedWork work_;
  std::shared_ptr<void> handle_;
};

template <class T>
DeviceArray<T>::DeviceArray(Queue& queue, size_t size)
    : queue_(&queue), data_(static_cast<T*>(queue.Allocate(size * sizeof(T)))), size_(size) {}

template <class T>
void DeviceArray<T>::Reset() noexcept {
  if (data_ != nullptr) queue_->Free(data_, bytes());
  data_ = nullptr;
  size_ = 0;
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_RAII_QUEUE_H_
