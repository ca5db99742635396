// Memory that was freed and that the allocator keeps. In builds without tcmalloc these functions do
// nothing.
#ifndef SPARSEAGG_SERVICE_ALLOCATOR_H_
#define SPARSEAGG_SERVICE_ALLOCATOR_H_

#include <cstdint>

namespace sparseagg {

// Makes the allocator keep freed memory until GiveBackFreedMemory().
void KeepFreedMemory();

// The freed bytes in whole pages, without those that were given back.
uint64_t FreedMemoryBytes();

// Gives about `bytes` back to the system; the allocator gives back whole ranges.
void GiveBackFreedMemory(uint64_t bytes);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ALLOCATOR_H_
