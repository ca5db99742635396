// Memory for large arrays on the host: not zeroed, and in huge pages if the system has them. A
// first pass that only writes zeros, or a page fault for every 4 KiB, would cost as much as the
// reduction itself.
#ifndef SPARSEAGG_BASE_HOST_VECTOR_H_
#define SPARSEAGG_BASE_HOST_VECTOR_H_

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace sparseagg {

// Allocates memory that is at least 64-byte aligned; returns null when there is none. From
// kHugeBytesMin bytes on, pages that are never written take no memory, so that a caller may
// allocate an upper bound. REQUIRES: bytes > 0.
void* AllocateHost(size_t bytes) noexcept;
void FreeHost(void* memory) noexcept;

inline constexpr size_t kHugeBytesMin = size_t{4} << 20;

// An allocator for std::vector that uses AllocateHost() and leaves elements made by resize()
// uninitialised.
template <class T>
struct HostAllocator {
  using value_type = T;

  HostAllocator() = default;
  template <class U>
  HostAllocator(const HostAllocator<U>&) noexcept {}  // NOLINT(google-explicit-constructor)

  T* allocate(size_t n) {
    if (n > std::numeric_limits<size_t>::max() / 2 / sizeof(T)) throw std::bad_alloc();
    void* memory = AllocateHost(n * sizeof(T));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) noexcept { FreeHost(memory); }

  template <class U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  template <class U, class... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }

  friend bool operator==(const HostAllocator&, const HostAllocator&) { return true; }
};

template <class T>
using HostVector = std::vector<T, HostAllocator<T>>;

}  // namespace sparseagg

#endif  // SPARSEAGG_BASE_HOST_VECTOR_H_
