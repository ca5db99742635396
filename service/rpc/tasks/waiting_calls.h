// Bounds the calls about tasks that wait for a thread or for the disk, with the bytes of their
// requests, so that a slow disk does not fill the memory. The last eighth is kept for the calls
// that workers make about their leases, so that no tenant makes leases of others end by its other
// calls.
#ifndef SPARSEAGG_SERVICE_RPC_TASKS_WAITING_CALLS_H_
#define SPARSEAGG_SERVICE_RPC_TASKS_WAITING_CALLS_H_

#include <cstdint>
#include <memory>
#include <mutex>

namespace sparseagg {

// Thread-safe. Must outlive the places that it gives.
class WaitingCalls {
 public:
  // What a call may have of the places: all, or all but the last eighth.
  enum class Share : uint8_t { kAll, kMost };

  WaitingCalls(uint64_t calls_max, uint64_t bytes_max)
      : calls_max_(calls_max), bytes_max_(bytes_max) {}

  // Returns null if there is no place; a call that is alone always has one. The caller keeps the
  // place until the call is answered.
  std::shared_ptr<void> Enter(uint64_t bytes, Share share) {
    const std::lock_guard lock(mutex_);
    const uint64_t kept = share == Share::kAll ? 0 : 1;
    const bool is_full = calls_ >= calls_max_ - kept * (calls_max_ / 8) ||
                         bytes_ + bytes > bytes_max_ - kept * (bytes_max_ / 8);
    if (is_full && calls_ > 0) return nullptr;
    ++calls_;
    bytes_ += bytes;
    return {this, [this, bytes](void*) { Leave(bytes); }};
  }

 private:
  void Leave(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    --calls_;
    bytes_ -= bytes;
  }

  const uint64_t calls_max_;
  const uint64_t bytes_max_;
  std::mutex mutex_;
  uint64_t calls_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_TASKS_WAITING_CALLS_H_
