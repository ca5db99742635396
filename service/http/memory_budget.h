// The memory of all requests that are being received, and of all answers that are being sent
// (http-bytes-max).
#ifndef SPARSEAGG_SERVICE_HTTP_MEMORY_BUDGET_H_
#define SPARSEAGG_SERVICE_HTTP_MEMORY_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <utility>

namespace sparseagg {

// Thread-safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(uint64_t bytes_max) : bytes_max_(bytes_max) {}
  uint64_t bytes_max() const { return bytes_max_; }

  bool Take(uint64_t bytes) {
    if (in_use_.fetch_add(bytes) + bytes <= bytes_max_) return true;
    in_use_ -= bytes;
    return false;
  }
  // Beyond the limit, too.
  void Force(uint64_t bytes) { in_use_ += bytes; }
  void Give(uint64_t bytes) { in_use_ -= bytes; }

 private:
  const uint64_t bytes_max_;
  std::atomic<uint64_t> in_use_ = 0;
};

// Bytes of a budget, which must outlive it; they are given back at its end. Thread-compatible.
class HeldBytes {
 public:
  HeldBytes() = default;
  explicit HeldBytes(MemoryBudget* budget) : budget_(budget) {}
  HeldBytes(HeldBytes&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  HeldBytes& operator=(HeldBytes&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;
  ~HeldBytes() { Release(); }

  // Returns false, and takes nothing, if the budget has no room.
  bool Grow(uint64_t bytes) {
    if (budget_ != nullptr && !budget_->Take(bytes)) return false;
    bytes_ += bytes;
    return true;
  }
  void Force(uint64_t bytes) {
    if (budget_ != nullptr) budget_->Force(bytes);
    bytes_ += bytes;
  }
  void Release() {
    if (budget_ != nullptr) budget_->Give(bytes_);
    bytes_ = 0;
  }

 private:
  MemoryBudget* budget_ = nullptr;  // null: nothing is counted
  uint64_t bytes_ = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_HTTP_MEMORY_BUDGET_H_
