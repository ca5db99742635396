// The host memory of the library (base/host_vector.h), in place of base/host_vector.cc. The server
// has tcmalloc, which keeps freed memory. A Python process has the C library's allocator, which
// returns each large block to the system, so that the next sum pays for fresh pages: 10^7 entries
// took 50 to 290 ms of system time more. So large blocks are mapped here, and some are kept.
#include "python/native/host_memory.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <list>
#include <map>
#include <mutex>
#include <new>

#include "base/host_vector.h"

namespace sparseagg {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

bool MayBeLarge(const void* memory) { return reinterpret_cast<uintptr_t>(memory) % kHugePage == 0; }

// Maps memory that begins at a huge page. Returns null when there is none. REQUIRES: `bytes` are
// whole huge pages.
void* Map(size_t bytes) {
  const size_t size = bytes + kHugePage;
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<char*>(memory);
  const size_t skipped =
      RoundUp(reinterpret_cast<uintptr_t>(begin), kHugePage) - reinterpret_cast<uintptr_t>(begin);
  if (skipped > 0) munmap(begin, skipped);
  if (skipped < kHugePage) munmap(begin + skipped + bytes, kHugePage - skipped);
  madvise(begin + skipped, bytes, MADV_HUGEPAGE);  // advice: without huge pages, ordinary ones
  return begin + skipped;
}

// The large blocks of the process. Thread-safe, also while another thread forks.
class LargeBlocks {
 public:
  static LargeBlocks& Instance() {
    static auto& instance = *new LargeBlocks;
    return instance;
  }

  // REQUIRES: `bytes` are whole huge pages.
  void* Allocate(size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto best = kept_.end();
    for (auto block = kept_.begin(); block != kept_.end(); ++block) {
      const bool fits = block->bytes >= bytes && block->bytes / 2 <= bytes;
      if (fits && (best == kept_.end() || block->bytes < best->bytes)) best = block;
    }
    Block block = {nullptr, bytes};
    if (best != kept_.end()) {
      block = *best;
      kept_bytes_ -= block.bytes;
      kept_.erase(best);
    } else {
      block.memory = Map(bytes);
      if (block.memory == nullptr) return nullptr;
    }
    used_[block.memory] = block.bytes;
    return block.memory;
  }

  // Returns false if the block is not one of these.
  bool Free(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(memory);
    if (found == used_.end()) return false;
    const Block block = {memory, found->second};
    used_.erase(found);
    if (block.bytes > native::kKeptBytesMax) {
      munmap(block.memory, block.bytes);
      return true;
    }
    // The system may take the pages when it needs them; until then the next user finds them mapped.
    madvise(block.memory, block.bytes, MADV_FREE);
    kept_.push_back(block);
    kept_bytes_ += block.bytes;
    while (kept_bytes_ > native::kKeptBytesMax) {
      munmap(kept_.front().memory, kept_.front().bytes);
      kept_bytes_ -= kept_.front().bytes;
      kept_.pop_front();
    }
    return true;
  }

  size_t kept_bytes() {
    const std::lock_guard lock(mutex_);
    return kept_bytes_;
  }

 private:
  struct Block {
    void* memory;
    size_t bytes;
  };

  LargeBlocks() {
    pthread_atfork([] { Instance().mutex_.lock(); }, [] { Instance().mutex_.unlock(); },
                   [] { Instance().mutex_.unlock(); });
  }

  std::mutex mutex_;
  std::map<void*, size_t> used_;
  std::list<Block> kept_;  // the one that was freed first is first
  size_t kept_bytes_ = 0;
};

}  // namespace

void* AllocateHost(size_t bytes) noexcept {
  if (bytes < kHugeBytesMin) return std::aligned_alloc(kLine, RoundUp(bytes, kLine));
  if (bytes > SIZE_MAX - 2 * kHugePage) return nullptr;
  try {
    return LargeBlocks::Instance().Allocate(RoundUp(bytes, kHugePage));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void FreeHost(void* memory) noexcept {
  if (memory == nullptr) return;
  if (!MayBeLarge(memory) || !LargeBlocks::Instance().Free(memory)) std::free(memory);
}

namespace native {

size_t KeptBytes() { return LargeBlocks::Instance().kept_bytes(); }

}  // namespace native
}  // namespace sparseagg
