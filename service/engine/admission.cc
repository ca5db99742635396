#include "service/engine/admission.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "sparse/status.h"

namespace sparseagg {
namespace {

// Long enough for several folds of a 16 MiB message, short beside a round; clients back off from
// here.
constexpr uint64_t kRetryAfterMs = 200;

}  // namespace

Reservation::Reservation(Reservation&& other) noexcept
    : admission_(std::exchange(other.admission_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  Reservation old(std::move(*this));
  admission_ = std::exchange(other.admission_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

Reservation::~Reservation() {
  if (admission_ != nullptr) admission_->GiveBack(bytes_);
}

Reservation Reservation::Split(uint64_t bytes) {
  bytes_ -= bytes;
  return Reservation(admission_, bytes);
}

absl::StatusOr<Reservation> Admission::Reserve(uint64_t bytes) {
  if (bytes > bytes_max_) {
    return MakeError(absl::StatusCode::kResourceExhausted, "UPDATE_TOO_LARGE",
                     absl::StrCat("the update needs ", bytes, " bytes of staging memory, more than",
                                  " staging-bytes-max = ", bytes_max_,
                                  "; send fewer entries or raise the limit"));
  }
  std::lock_guard lock(mutex_);
  if (bytes > bytes_max_ - bytes_in_use_) {
    return WithRetryAfter(
        MakeError(
            absl::StatusCode::kResourceExhausted, "STAGING_FULL",
            absl::StrCat("the update needs ", bytes, " bytes of staging memory and ",
                         bytes_max_ - bytes_in_use_, " of ", bytes_max_, " are free; try again")),
        kRetryAfterMs);
  }
  bytes_in_use_ += bytes;
  return Reservation(this, bytes);
}

uint64_t Admission::bytes_in_use() const {
  std::lock_guard lock(mutex_);
  return bytes_in_use_;
}

void Admission::GiveBack(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  bytes_in_use_ -= bytes;
}

}  // namespace sparseagg
