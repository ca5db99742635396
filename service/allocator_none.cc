// For builds with a sanitizer, which has an allocator of its own.
#include "service/allocator.h"

namespace sparseagg {

void KeepFreedMemory() {}

uint64_t FreedMemoryBytes() { return 0; }

void GiveBackFreedMemory(uint64_t /*bytes*/) {}

}  // namespace sparseagg
