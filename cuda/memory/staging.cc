#include "cuda/memory/staging.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace sparseagg::gpu {
namespace {

constexpr size_t kLine = 64;
// Four transfers of this size in flight reach the full rate of PCIe (docs/decisions/0009).
constexpr size_t kRegionBytes = size_t{16} << 20;

constexpr size_t RoundUp(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

// Its first and last line stay free, so that what lies before or behind a region is never a tag
// away from one of its blocks (IsNext).
struct PinnedStaging::Region {
  PinnedBuffer memory;
  size_t used = kLine;
  size_t blocks = 0;  // in use
};

// A block is preceded by a line with its region and the pool, which lives until the last block.
class PinnedStaging::Pool : public std::enable_shared_from_this<Pool> {
 public:
  explicit Pool(uint64_t budget_bytes) : budget_bytes_(budget_bytes) {}

  struct Tag {
    std::shared_ptr<Pool> pool;
    Region* region;
  };
  static_assert(sizeof(Tag) <= kLine);

  // Null when no more may be locked. `size` is a multiple of a line and counts the tag. Pages are
  // locked and unlocked, which takes milliseconds, while others go on.
  std::byte* Allocate(size_t size) {
    if (std::byte* block = AllocateLocked(size); block != nullptr) return block;
    AddRegion(size);
    return AllocateLocked(size);  // perhaps from what another thread has locked meanwhile
  }

  // From what is locked.
  std::byte* AllocateLocked(size_t size) {
    const std::lock_guard lock(mutex_);
    return Cut(size);
  }

  // Locks pages that have room for a block of that size, within the budget.
  void AddRegion(size_t size) {
    const size_t wanted = std::max(size + 2 * kLine, kRegionBytes);
    {
      std::vector<std::unique_ptr<Region>> unlocked;  // goes after the lock
      const std::lock_guard lock(mutex_);
      if (!Reserve(wanted, unlocked)) return;
    }
    std::unique_ptr<Region> region = Lock(wanted);
    const std::lock_guard lock(mutex_);
    if (region == nullptr) {
      locked_bytes_ -= wanted;
    } else {
      regions_.emplace(region->memory.data(), wanted);
      free_.push_back(std::move(region));
    }
  }

  void Free(Region* region) {
    const std::lock_guard lock(mutex_);
    if (--region->blocks != 0) return;
    region->used = kLine;
    if (region != current_.get()) free_.emplace_back(region);
  }

  uint64_t locked_bytes() const {
    const std::lock_guard lock(mutex_);
    return locked_bytes_;
  }

  bool Has(const void* memory) const {
    const auto* at = static_cast<const std::byte*>(memory);
    const std::lock_guard lock(mutex_);
    const auto above = regions_.upper_bound(at);
    if (above == regions_.begin()) return false;
    const auto& [begin, bytes] = *std::prev(above);
    return at < begin + bytes;
  }

 private:
  // A block of the current region or of a free one of about its size, which becomes the current
  // one.
  std::byte* Cut(size_t size) {
    if (current_ == nullptr || current_->used + size + kLine > current_->memory.bytes()) {
      std::unique_ptr<Region> region = TakeFree(size);
      if (region == nullptr) return nullptr;
      // A full region comes back with its last block.
      if (current_ != nullptr && current_->blocks == 0) free_.push_back(std::move(current_));
      current_.release();  // NOLINT(bugprone-unused-return-value): its blocks own it now
      current_ = std::move(region);
    }
    std::byte* at = current_->memory.data() + current_->used;
    current_->used += size;
    ++current_->blocks;
    new (at) Tag{shared_from_this(), current_.get()};
    return at + kLine;
  }

  std::unique_ptr<Region> TakeFree(size_t size) {
    const size_t wanted = std::max(size + 2 * kLine, kRegionBytes);
    for (auto& region : free_) {
      if (region->memory.bytes() < wanted || region->memory.bytes() > 2 * wanted) continue;
      std::swap(region, free_.back());
      std::unique_ptr<Region> taken = std::move(free_.back());
      free_.pop_back();
      return taken;
    }
    return nullptr;
  }

  // Counts `bytes` as locked if the budget has them, once the free regions moved to
  // `unlocked` are gone.
  bool Reserve(size_t bytes, std::vector<std::unique_ptr<Region>>& unlocked) {
    while (locked_bytes_ + bytes > budget_bytes_ && !free_.empty()) {
      locked_bytes_ -= free_.back()->memory.bytes();
      regions_.erase(free_.back()->memory.data());
      unlocked.push_back(std::move(free_.back()));
      free_.pop_back();
    }
    if (locked_bytes_ + bytes > budget_bytes_) return false;
    locked_bytes_ += bytes;
    return true;
  }

  static std::unique_ptr<Region> Lock(size_t bytes) {
    try {
      auto region = std::make_unique<Region>();
      region->memory = PinnedBuffer(bytes);
      return region;
    } catch (const std::exception&) {
      return nullptr;  // no more pages, or no device any more: ordinary memory serves
    }
  }

  const uint64_t budget_bytes_;
  mutable std::mutex mutex_;
  uint64_t locked_bytes_ = 0;
  std::map<const std::byte*, size_t> regions_;  // all of them
  std::unique_ptr<Region> current_;             // that new blocks come from
  std::vector<std::unique_ptr<Region>> free_;
};

PinnedStaging::PinnedStaging(uint64_t budget_bytes) : pool_(std::make_shared<Pool>(budget_bytes)) {}

PinnedStaging::~PinnedStaging() = default;

absl::StatusOr<StagedUpdate> PinnedStaging::Stage(const TensorLayout& layout, uint64_t nnz) {
  const unsigned __int128 wanted =
      static_cast<unsigned __int128>(nnz) * (sizeof(uint64_t) + layout.row_bytes());
  // An impossible size is refused there, too.
  if (nnz == 0 || wanted > SIZE_MAX / 4) return StageOnHeap(layout, nnz);
  Block block = Allocate(static_cast<size_t>(wanted));
  if (block == nullptr) return StageOnHeap(layout, nnz);
  StagedUpdate staged;
  auto* rows = static_cast<uint64_t*>(block.get());
  staged.entries = {layout, nnz, rows, rows + nnz};
  staged.memory = std::move(block);
  staged.bytes = static_cast<uint64_t>(wanted);
  return staged;
}

PinnedStaging::Block PinnedStaging::Allocate(size_t bytes) {
  return {pool_->Allocate(RoundUp(bytes) + kLine), &FreeBlock};
}

PinnedStaging::Block PinnedStaging::AllocateLocked(size_t bytes) {
  return {pool_->AllocateLocked(RoundUp(bytes) + kLine), &FreeBlock};
}

void PinnedStaging::Lock(size_t bytes) { pool_->AddRegion(RoundUp(bytes) + kLine); }

bool PinnedStaging::IsPinned(const void* memory) const { return pool_->Has(memory); }

void PinnedStaging::FreeBlock(void* block) {
  auto* tag = reinterpret_cast<Pool::Tag*>(static_cast<std::byte*>(block) - kLine);
  const std::shared_ptr<Pool> pool = std::move(tag->pool);
  Region* region = tag->region;
  tag->~Tag();
  pool->Free(region);
}

uint64_t PinnedStaging::locked_bytes() const { return pool_->locked_bytes(); }

bool PinnedStaging::IsNext(const void* update, uint64_t bytes, const void* next) {
  return static_cast<const std::byte*>(update) + RoundUp(bytes) + kLine == next;
}

}  // namespace sparseagg::gpu
