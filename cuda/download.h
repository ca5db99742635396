// Results on their way to the host, in pieces through page-locked memory: while two pieces are on
// the bus, those before are written to where they belong, by a thread each.
#ifndef SPARSEAGG_CUDA_DOWNLOAD_H_
#define SPARSEAGG_CUDA_DOWNLOAD_H_

#include <cstddef>

#include "cuda/raii/pinned_buffer.h"
#include "cuda/raii/queue.h"
#include "cuda/raii/stream.h"

namespace sparseagg::gpu {

// For one thread at a time.
class Downloads {
 public:
  // Copies to ordinary memory, after everything queued before. Waits for it. Slower where the
  // system locks no more pages. Throws CudaError.
  template <class T>
  void Copy(Queue& queue, const T* from, T* to, size_t size) {
    CopyBytes(queue, reinterpret_cast<const std::byte*>(from), reinterpret_cast<std::byte*>(to),
              size * sizeof(T));
  }

 private:
  // Whether the first so many pieces have their memory.
  bool Lock(size_t pieces);
  void CopyBytes(Queue& queue, const std::byte* from, std::byte* to, size_t bytes);

  static constexpr size_t kPieces = 6;
  struct Piece {
    PinnedBuffer memory;  // locked when first needed
    Event arrived;
  };

  Piece pieces_[kPieces];
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_DOWNLOAD_H_
