// Freed memory that the library keeps for the next reduction (host_memory.cc).
#ifndef SPARSEAGG_PYTHON_NATIVE_HOST_MEMORY_H_
#define SPARSEAGG_PYTHON_NATIVE_HOST_MEMORY_H_

#include <cstddef>

namespace sparseagg::native {

// The most bytes of freed blocks that stay with the process. They are marked as free, so that the
// system takes their pages when it needs them. Staging and result of 10^7 entries take about 300
// MiB.
inline constexpr size_t kKeptBytesMax = size_t{512} << 20;

// Returns the bytes that are kept now. Thread-safe.
size_t KeptBytes();

}  // namespace sparseagg::native

#endif  // SPARSEAGG_PYTHON_NATIVE_HOST_MEMORY_H_
