#include "base/host_vector.h"

#include <sys/mman.h>

#include <cstdlib>

namespace sparseagg {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kPage = size_t{4} << 10;
constexpr size_t kHugePage = size_t{2} << 20;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void* AllocateHost(size_t bytes) noexcept {
  if (bytes < kHugeBytesMin) return std::aligned_alloc(kLine, RoundUp(bytes, kLine));
  // Not aligned to huge pages: tcmalloc adds the alignment to the size, so that a block would not
  // fit where one of its size has been freed, and memory would grow for many rounds (5 % of a
  // server's time).
  const size_t size = RoundUp(bytes, kHugePage);
  void* memory = std::aligned_alloc(kPage, size);
  // This is only advice: if huge pages are off, ordinary ones are used.
  if (memory != nullptr) madvise(memory, size, MADV_HUGEPAGE);
  return memory;
}

void FreeHost(void* memory) noexcept { std::free(memory); }

}  // namespace sparseagg
