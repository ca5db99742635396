// Memory for large arrays on the host: not zeroed, and in huge pages if the system has them. A
// first pass that only writes zeros, or a page fault for every 4 KiB, would cost as much as the
// reduction itself.
#ifndef SPARSEAGG_BASE_HOST_VECTOR_H_
#define SPARSEAGG_BASE_HOST_VECTOR_H_

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace sparseagg {

// Allocates memory that is at least 64-byte aligned; returns null when there is none. From
// kHugeBytesMin bytes on, pages that are never written take no memory, so that a caller may
// allocate an upper bound. REQUIRES: bytes > 0.
void* AllocateHost(size_t bytes) noexcept;
void FreeHost(void* memory) noexcept;

inline constexpr size_t kHugeBytesMin = size_t{4} << 20;

// Memory that a back end provides for its results, such as page-locked memory. Thread-safe.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  // Allocates memory that is at least 64-byte aligned; returns null when there is none.
  // REQUIRES: bytes > 0.
  virtual void* Allocate(size_t bytes) noexcept = 0;
  virtual void Free(void* memory) noexcept = 0;
};

// An allocator for std::vector that uses AllocateHost() or a HostMemory, and leaves elements made
// by resize() uninitialised. A moved vector keeps its memory; a copy is in ordinary memory.
template <class T>
class HostAllocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  HostAllocator() = default;
  explicit HostAllocator(std::shared_ptr<HostMemory> memory) : memory_(std::move(memory)) {}
  template <class U>
  HostAllocator(const HostAllocator<U>& other) noexcept  // NOLINT(google-explicit-constructor)
      : memory_(other.memory()) {}

  HostAllocator select_on_container_copy_construction() const { return {}; }
  const std::shared_ptr<HostMemory>& memory() const { return memory_; }

  T* allocate(size_t n) {
    if (n > std::numeric_limits<size_t>::max() / 2 / sizeof(T)) throw std::bad_alloc();
    const size_t bytes = n * sizeof(T);
    void* memory = memory_ == nullptr ? AllocateHost(bytes) : memory_->Allocate(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) noexcept {
    memory_ == nullptr ? FreeHost(memory) : memory_->Free(memory);
  }

  template <class U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  template <class U, class... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }

  friend bool operator==(const HostAllocator& a, const HostAllocator& b) {
    return a.memory_ == b.memory_;
  }

 private:
  std::shared_ptr<HostMemory> memory_;  // null: AllocateHost()
};

template <class T>
using HostVector = std::vector<T, HostAllocator<T>>;

}  // namespace sparseagg

#endif  // SPARSEAGG_BASE_HOST_VECTOR_H_
