// Admission by bytes: memory for an update is reserved from one budget before any of it is taken,
// so that senders cannot make the server run out of memory. What does not fit now is refused with a
// hint when to try again.
#ifndef SPARSEAGG_SERVICE_ENGINE_ADMISSION_H_
#define SPARSEAGG_SERVICE_ENGINE_ADMISSION_H_

#include <cstdint>
#include <mutex>

#include "absl/status/statusor.h"

namespace sparseagg {

class Admission;

// Bytes of the budget; given back when destroyed. Must not outlive its Admission.
// Thread-compatible.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();

  uint64_t bytes() const { return bytes_; }
  // Cuts `bytes` off. REQUIRES: bytes <= bytes().
  Reservation Split(uint64_t bytes);

 private:
  friend class Admission;
  Reservation(Admission* admission, uint64_t bytes) : admission_(admission), bytes_(bytes) {}

  Admission* admission_ = nullptr;
  uint64_t bytes_ = 0;
};

// Thread-safe.
class Admission {
 public:
  explicit Admission(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // RESOURCE_EXHAUSTED: STAGING_FULL, with a time to wait, when the bytes do not fit now;
  // UPDATE_TOO_LARGE when they never will.
  absl::StatusOr<Reservation> Reserve(uint64_t bytes);

  uint64_t bytes_in_use() const;

 private:
  friend class Reservation;
  void GiveBack(uint64_t bytes);

  const uint64_t bytes_max_;
  mutable std::mutex mutex_;
  uint64_t bytes_in_use_ = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ADMISSION_H_
