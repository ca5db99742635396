#include "cpu/staging.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/host_vector.h"
#include "base/status.h"
#include "sparse/encodings/packed_block.h"

namespace sparseagg {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kRegionBytesMin = size_t{64} << 10;
constexpr size_t kRegionBytesMax = size_t{32} << 20;

size_t RoundUp(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

// Lies at the start of its own memory. Lives until its last block is freed and the area has
// released it.
struct StagingArea::Region {
  std::atomic<size_t> users{1};
  size_t size = 0;
  size_t used = kLine;  // by this header
};

StagingArea::~StagingArea() {
  Release(region_);
  Release(previous_);
}

absl::StatusOr<StagedUpdate> StagingArea::Stage(const TensorLayout& layout, uint64_t nnz) {
  const unsigned __int128 wanted =
      static_cast<unsigned __int128>(nnz) * (sizeof(uint64_t) + layout.row_bytes());
  // Large updates get memory of their own. StageOnHeap() also refuses impossible sizes.
  if (nnz == 0 || wanted > kRegionBytesMax / 4) return StageOnHeap(layout, nnz);
  void* block = Allocate(RoundUp(static_cast<size_t>(wanted)));
  if (block == nullptr) return StageOnHeap(layout, nnz);
  StagedUpdate staged;
  staged.entries = {layout, nnz, static_cast<uint64_t*>(block),
                    static_cast<uint64_t*>(block) + nnz};
  staged.memory = {block, &FreeBlock};
  staged.bytes = static_cast<uint64_t>(wanted);
  return staged;
}

absl::StatusOr<StagedUpdate> StagingArea::StagePacked(const TensorLayout& layout, uint64_t nnz,
                                                      uint64_t rows_bytes) {
  static_assert(kValuesSlackBytes >= kBlockSlackBytes);
  const unsigned __int128 values = static_cast<unsigned __int128>(nnz) * layout.row_bytes();
  const unsigned __int128 wanted = values + rows_bytes + kValuesSlackBytes;
  StagedUpdate staged;
  if (wanted <= SIZE_MAX / 2) {
    staged.bytes = static_cast<uint64_t>(wanted);
    staged.memory = {AllocateHost(staged.bytes), &FreeHost};
  }
  if (staged.memory == nullptr) {
    return MakeError(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY",
                     absl::StrCat("no memory for ", nnz, " entries of ", layout.row_bytes(),
                                  " bytes and ", rows_bytes, " bytes of rows"));
  }
  auto* memory = static_cast<char*>(staged.memory.get());
  staged.entries = {
      .layout = layout,
      .nnz = nnz,
      .rows = RowStorage(std::span(memory + static_cast<uint64_t>(values), rows_bytes)),
      .values = memory};
  return staged;
}

absl::StatusOr<StagedUpdate> StagingArea::StageNarrow(const TensorLayout& layout, uint64_t nnz) {
  StagedUpdate staged;
  staged.bytes = nnz * layout.row_bytes() + kValuesSlackBytes;
  staged.memory = {AllocateHost(staged.bytes), &FreeHost};
  staged.narrow_rows = NarrowRows::Make(layout.num_rows, nnz);
  if (staged.memory == nullptr || staged.narrow_rows == nullptr) {
    return MakeError(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY",
                     absl::StrCat("no memory for ", nnz, " entries of ", layout.row_bytes(),
                                  " bytes and their rows"));
  }
  staged.entries = {.layout = layout,
                    .nnz = nnz,
                    .rows = RowStorage(staged.narrow_rows.get()),
                    .values = staged.memory.get()};
  return staged;
}

// A cache line with a pointer to the region precedes each block.
void* StagingArea::Allocate(size_t bytes) {
  const size_t size = bytes + kLine;
  const std::lock_guard lock(mutex_);
  if (region_ == nullptr || region_->used + size > region_->size) {
    if (!NextRegion(size)) return nullptr;
  }
  std::byte* block = reinterpret_cast<std::byte*>(region_) + region_->used + kLine;
  region_->used += size;
  region_->users.fetch_add(1, std::memory_order_relaxed);
  *reinterpret_cast<Region**>(block - kLine) = region_;
  return block;
}

// Takes the previous region if it is free. Otherwise makes a new one, twice as large as the last as
// long as two regions do not hold the updates that are staged at a time.
bool StagingArea::NextRegion(size_t block_bytes) {
  static_assert(sizeof(Region) <= kLine);
  if (previous_ != nullptr && IsFree(previous_) && kLine + block_bytes <= previous_->size) {
    std::swap(region_, previous_);
    region_->used = kLine;
    return true;
  }
  const size_t next = previous_ == nullptr ? region_bytes_ : 2 * region_bytes_;
  const size_t region_bytes =
      std::max(std::clamp(next, kRegionBytesMin, kRegionBytesMax), 4 * RoundUp(block_bytes));
  void* memory = AllocateHost(region_bytes);
  if (memory == nullptr) return false;
  Release(std::exchange(previous_, region_));
  region_ = new (memory) Region;
  region_->size = region_bytes_ = region_bytes;
  return true;
}

void StagingArea::Trim() {
  const std::lock_guard lock(mutex_);
  for (Region** region : {&region_, &previous_}) {
    if (*region != nullptr && IsFree(*region)) Release(std::exchange(*region, nullptr));
  }
}

// Returns whether only the area still refers to the region. No other user can appear, since the
// area alone hands out blocks. REQUIRES: mutex_ is held.
bool StagingArea::IsFree(const Region* region) {
  return region->users.load(std::memory_order_acquire) == 1;
}

void StagingArea::FreeBlock(void* block) {
  Release(*reinterpret_cast<Region**>(static_cast<std::byte*>(block) - kLine));
}

void StagingArea::Release(Region* region) {
  if (region == nullptr || region->users.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  region->~Region();
  FreeHost(region);
}

}  // namespace sparseagg
