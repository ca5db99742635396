#include "tests/support/allocation_limit.h"

#include <cstdlib>
#include <limits>
#include <new>

namespace sparseagg::testing {

std::atomic<size_t> allocation_bytes_max = std::numeric_limits<size_t>::max();

}  // namespace sparseagg::testing

void* operator new(size_t bytes) {
  void* memory = bytes > sparseagg::testing::allocation_bytes_max
                     ? nullptr
                     : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// Not inlined: g++ 12 would warn of free() beside a `new` that it sees as one.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
