// Results on their way to the host, on a stream of their own, so that kernels run beside. Straight
// into page-locked memory of results (result_memory.h); to other places in pieces through
// page-locked buffers: while two pieces are on the bus, those before are written to where they
// belong, by a thread each.
#ifndef SPARSEAGG_CUDA_MEMORY_DOWNLOAD_H_
#define SPARSEAGG_CUDA_MEMORY_DOWNLOAD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cuda/memory/result_memory.h"
#include "cuda/raii/pinned_buffer.h"
#include "cuda/raii/queue.h"
#include "cuda/raii/stream.h"

namespace sparseagg::gpu {

// For one thread at a time.
class Downloads {
 public:
  explicit Downloads(const ResultMemory& results) : results_(results) {}

  // Copies to memory of the host, after everything queued before. Waits for it. Slower where that
  // is not page-locked, and where the system locks no more pages. Throws CudaError.
  template <class T>
  void Copy(Queue& queue, const T* from, T* to, size_t size) {
    Mark(queue);
    CopyMarked(queue, from, to, size);
  }

  // The same in two steps: after what was queued before Mark(), beside what was queued since.
  void Mark(Queue& queue) { marked_.Record(queue.cuda_stream()); }
  template <class T>
  void CopyMarked(Queue& queue, const T* from, T* to, size_t size) {
    CopyBytes(queue, reinterpret_cast<const std::byte*>(from), reinterpret_cast<std::byte*>(to),
              size * sizeof(T));
  }

  // Thread-safe.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  // Returns whether the first `pieces` pieces have their memory.
  bool Lock(size_t pieces);
  // On the stream of downloads, which reaches `arrived` with it.
  void Start(Queue& queue, const std::byte* from, std::byte* to, size_t bytes, Event& arrived);
  void CopyBytes(Queue& queue, const std::byte* from, std::byte* to, size_t bytes);

  static constexpr size_t kPieces = 6;
  struct Piece {
    PinnedBuffer memory;  // locked when first needed
    Event arrived;
  };

  const ResultMemory& results_;
  std::atomic<uint64_t> bytes_{0};
  Piece pieces_[kPieces];
  Stream stream_;
  Event marked_;
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_MEMORY_DOWNLOAD_H_
