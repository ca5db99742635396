#include <gperftools/malloc_extension.h>

#include <algorithm>

#include "service/allocator.h"

namespace sparseagg {
namespace {

// The allocator is locked during the call; 64 MiB take some milliseconds.
constexpr uint64_t kBytesAtATime = uint64_t{64} << 20;

}  // namespace

void KeepFreedMemory() { MallocExtension::instance()->SetMemoryReleaseRate(0); }

uint64_t FreedMemoryBytes() {
  size_t bytes = 0;
  MallocExtension::instance()->GetNumericProperty("tcmalloc.pageheap_free_bytes", &bytes);
  return bytes;
}

void GiveBackFreedMemory(uint64_t bytes) {
  while (bytes > 0) {
    const uint64_t part = std::min(bytes, kBytesAtATime);
    MallocExtension::instance()->ReleaseToSystem(part);
    bytes -= part;
  }
}

}  // namespace sparseagg
