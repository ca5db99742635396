// Memory for large arrays on the host: not zeroed, and in huge pages where the system has them. At
// the speed that entries are reduced, a first pass that only writes zeros, and a page fault for
// every 4 KiB, would each cost as much as the reduction.
#ifndef SPARSEAGG_BASE_HOST_VECTOR_H_
#define SPARSEAGG_BASE_HOST_VECTOR_H_

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace sparseagg {

// At least 64-byte aligned; null when there is no memory. From kHugeBytesMin on, pages that are
// never written take no memory, so that a caller may ask for an upper bound. `bytes` > 0.
void* AllocateHost(size_t bytes) noexcept;
void FreeHost(void* memory) noexcept;

inline constexpr size_t kHugeBytesMin = size_t{4} << 20;

// std::vector's allocator over AllocateHost(); elements made by resize() are left uninitialised.
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
