// Replaces `operator new` of a test program by one that fails above a limit. For one source of a
// program.
#ifndef SPARSEAGG_TESTS_SUPPORT_ALLOCATION_LIMIT_H_
#define SPARSEAGG_TESTS_SUPPORT_ALLOCATION_LIMIT_H_

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

std::atomic<size_t> allocation_bytes_max = std::numeric_limits<size_t>::max();

}  // namespace

void* operator new(size_t bytes) {
  void* memory = bytes > allocation_bytes_max ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// Not inlined: g++ 12 would warn of free() beside a `new` that it sees as one.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

#endif  // SPARSEAGG_TESTS_SUPPORT_ALLOCATION_LIMIT_H_
