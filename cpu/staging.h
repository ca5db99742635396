// Memory for staged updates. Blocks are cut from regions that grow, so many small updates lie close
// together in huge pages. Reading a thousand updates side by side, and writing into them once they
// are read, is two to three times slower on pages of 4 KiB. Where updates are folded as fast as
// they arrive, regions stay small and stay in the cache.
#ifndef SPARSEAGG_CPU_STAGING_H_
#define SPARSEAGG_CPU_STAGING_H_

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "absl/status/statusor.h"
#include "sparse/backend.h"
#include "sparse/types.h"

namespace sparseagg {

// Bytes that kernels may read after the last value, since they load whole vectors.
inline constexpr size_t kValuesSlackBytes = 64;

// Thread-safe. Staged updates may outlive it.
class StagingArea {
 public:
  StagingArea() = default;
  ~StagingArea();
  StagingArea(const StagingArea&) = delete;
  StagingArea& operator=(const StagingArea&) = delete;

  // Reserves memory for `nnz` entries. Returns RESOURCE_EXHAUSTED (OUT_OF_MEMORY) when there is not
  // enough.
  absl::StatusOr<StagedUpdate> Stage(const TensorLayout& layout, uint64_t nnz);
  // The same for an update with `rows_bytes` bytes of packed rows. kValuesSlackBytes can be read
  // after the values.
  static absl::StatusOr<StagedUpdate> StagePacked(const TensorLayout& layout, uint64_t nnz,
                                                  uint64_t rows_bytes);
  // The same for an update with narrow rows. REQUIRES: 0 < nnz <= NarrowRows::kNnzMax.
  static absl::StatusOr<StagedUpdate> StageNarrow(const TensorLayout& layout, uint64_t nnz);
  // Frees the regions that hold no update.
  void Trim();

 private:
  struct Region;
  static bool IsFree(const Region* region);
  static void Release(Region* region);
  static void FreeBlock(void* block);
  void* Allocate(size_t bytes);
  bool NextRegion(size_t block_bytes);

  std::mutex mutex_;
  Region* region_ = nullptr;    // new blocks are cut from it
  Region* previous_ = nullptr;  // reused if no update is left in it
  size_t region_bytes_ = 0;     // of the newest region
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_STAGING_H_
