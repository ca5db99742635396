#include "service/engine/admission.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "sparse/status.h"

namespace sparseagg {
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

void Reservation::SetBytes(uint64_t bytes) {
  admission_->Exchange(bytes_, bytes);
  bytes_ = bytes;
}

absl::StatusOr<Reservation> Admission::Reserve(uint64_t bytes, std::string_view who) {
  SPARSEAGG_RETURN_IF_ERROR(Take(bytes, who));
  return Reservation(this, bytes);
}

absl::Status Admission::Take(uint64_t bytes, std::string_view who) {
  const auto [own, whole] = parts_;
  if (own != nullptr) {
    SPARSEAGG_RETURN_IF_ERROR(own->Take(bytes, who));
    const absl::Status taken = whole->Take(bytes, who);
    if (!taken.ok()) own->GiveBack(bytes);
    return taken;
  }
  const std::string needs =
      absl::StrCat(std::string(who), " needs ", bytes, " bytes of ", words_.memory);
  if (bytes > bytes_max_) {
    return MakeError(absl::StatusCode::kResourceExhausted, words_.too_large,
                     absl::StrCat(needs, ", more than ", words_.limit, " = ", bytes_max_,
                                  "; send fewer entries or raise the limit"));
  }
  std::lock_guard lock(mutex_);
  const uint64_t free = bytes_in_use_ < bytes_max_ ? bytes_max_ - bytes_in_use_ : 0;
  if (bytes > free) {
    absl::Status full = MakeError(
        absl::StatusCode::kResourceExhausted, words_.full,
        absl::StrCat(needs, " and ", free, " of ", bytes_max_, " are free; ", words_.remedy));
    return words_.retry_after_ms == 0 ? full : WithRetryAfter(full, words_.retry_after_ms);
  }
  bytes_in_use_ += bytes;
  return absl::OkStatus();
}

uint64_t Admission::bytes_in_use() const {
  if (parts_[0] != nullptr) return parts_[0]->bytes_in_use();
  std::lock_guard lock(mutex_);
  return bytes_in_use_;
}

void Admission::GiveBack(uint64_t bytes) {
  for (Admission* part : parts_) {
    if (part != nullptr) part->GiveBack(bytes);
  }
  std::lock_guard lock(mutex_);
  bytes_in_use_ -= bytes;
}

void Admission::Exchange(uint64_t old_bytes, uint64_t new_bytes) {
  for (Admission* part : parts_) {
    if (part != nullptr) part->Exchange(old_bytes, new_bytes);
  }
  std::lock_guard lock(mutex_);
  bytes_in_use_ = bytes_in_use_ - old_bytes + new_bytes;
}

}  // namespace sparseagg
