// Memory that the allocator holds and nobody uses. Where a build has no allocator of its own, there
// is none.
#ifndef SPARSEAGG_SERVICE_ALLOCATOR_H_
#define SPARSEAGG_SERVICE_ALLOCATOR_H_

#include <cstdint>

namespace sparseagg {

// What is freed stays until it is given back: the allocator does not do so by itself any more.
void KeepFreedMemory();

// Of whole pages, not counting what has been given back.
uint64_t FreedMemoryBytes();

// To the system: about `bytes`, as the allocator gives back what lies together as a whole.
void GiveBackFreedMemory(uint64_t bytes);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ALLOCATOR_H_
