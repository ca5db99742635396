// Memory for staged updates: page-locked, so that the device fetches it without a detour, and cut
// from regions that are used again and again, since locking pages is slow. Updates that were staged
// one after another lie one after another, so that one transfer takes many small ones.
#ifndef SPARSEAGG_CUDA_MEMORY_STAGING_H_
#define SPARSEAGG_CUDA_MEMORY_STAGING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "cuda/raii/pinned_buffer.h"
#include "sparse/backend.h"

namespace sparseagg::gpu {

// Thread-safe. Staged updates may outlive it.
class PinnedStaging {
 public:
  // Locks at most `budget_bytes`; beyond it, and where the system locks no more pages, updates are
  // staged in ordinary memory, which is slower to fetch.
  explicit PinnedStaging(uint64_t budget_bytes);
  ~PinnedStaging();
  PinnedStaging(const PinnedStaging&) = delete;
  PinnedStaging& operator=(const PinnedStaging&) = delete;

  // RESOURCE_EXHAUSTED (OUT_OF_MEMORY) when there is no memory of either kind. Pages are locked by
  // the thread's current device, here and below; which one does not matter to those who use them.
  absl::StatusOr<StagedUpdate> Stage(const TensorLayout& layout, uint64_t nnz);

  // Page-locked memory for anything else; null where there is none. Thread-safe.
  using Block = std::unique_ptr<void, void (*)(void*)>;
  Block Allocate(size_t bytes);

  // The same from what is locked already: does not take long.
  Block AllocateLocked(size_t bytes);
  // Locks pages for a block of `bytes` bytes, if they can be locked.
  void Lock(size_t bytes);
  // Releases a block. Its owner calls this at its end.
  static void FreeBlock(void* block);

  uint64_t locked_bytes() const;

  // Returns whether `memory` lies in a block, of any owner: a back end in front of this one
  // lends its updates. Thread-safe.
  bool IsPinned(const void* memory) const;

  // Whether the staged update at `next` lies right behind the one at `update`, of `bytes`, so that
  // one transfer may take both, and the 64 bytes between them.
  static bool IsNext(const void* update, uint64_t bytes, const void* next);

 private:
  class Pool;
  struct Region;

  std::shared_ptr<Pool> pool_;
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_MEMORY_STAGING_H_
