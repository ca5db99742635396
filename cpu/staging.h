// Memory for staged updates: cut from regions that grow, so that many small updates lie close
// together in huge pages. Reading a thousand updates side by side, and writing into them once they
// are read, is two to three times slower on pages of 4 KiB. Where updates are folded as fast as
// they come, regions stay small, and in the cache.
#ifndef SPARSEAGG_CPU_STAGING_H_
#define SPARSEAGG_CPU_STAGING_H_

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "absl/status/statusor.h"
#include "sparse/backend.h"
#include "sparse/types.h"

namespace sparseagg {

// Vectors are loaded whole.
inline constexpr size_t kValuesSlackBytes = 64;

// Thread-safe. Staged updates may outlive it.
class StagingArea {
 public:
  StagingArea() = default;
  ~StagingArea();
  StagingArea(const StagingArea&) = delete;
  StagingArea& operator=(const StagingArea&) = delete;

  // RESOURCE_EXHAUSTED (OUT_OF_MEMORY) when there is none.
  absl::StatusOr<StagedUpdate> Stage(const TensorLayout& layout, uint64_t nnz);
  // With packed rows; kValuesSlackBytes can be read after the values.
  static absl::StatusOr<StagedUpdate> StagePacked(const TensorLayout& layout, uint64_t nnz,
                                                  uint64_t rows_bytes);
  // With narrow rows. REQUIRES: 0 < nnz <= NarrowRows::kNnzMax.
  static absl::StatusOr<StagedUpdate> StageNarrow(const TensorLayout& layout, uint64_t nnz);
  // Gives back what no update is in.
  void Trim();

 private:
  struct Region;
  static bool IsFree(const Region* region);
  static void Release(Region* region);
  static void FreeBlock(void* block);
  void* Allocate(size_t bytes);
  bool NextRegion(size_t block_bytes);

  std::mutex mutex_;
  Region* region_ = nullptr;    // that new blocks come from
  Region* previous_ = nullptr;  // which is taken again if no update is left in it
  size_t region_bytes_ = 0;     // of the last new one
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_STAGING_H_
