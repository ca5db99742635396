#include "service/engine/memory/admission.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

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
  if (admission_ != nullptr) admission_->Release(bytes_);
}

Reservation Reservation::Split(uint64_t bytes) {
  bytes_ -= bytes;
  return Reservation(admission_, bytes);
}

void Reservation::SetBytes(uint64_t bytes) {
  admission_->Resize(bytes_, bytes);
  bytes_ = bytes;
}

Claim::Claim(Claim&& other) noexcept
    : admission_(std::exchange(other.admission_, nullptr)),
      place_(other.place_),
      own_(std::move(other.own_)),
      combined_(other.combined_) {}

Claim& Claim::operator=(Claim&& other) noexcept {
  Claim old(std::move(*this));
  admission_ = std::exchange(other.admission_, nullptr);
  place_ = other.place_;
  own_ = std::move(other.own_);
  combined_ = other.combined_;
  return *this;
}

Claim::~Claim() {
  if (admission_ != nullptr) admission_->RemoveClaim(place_);
}

absl::Status Claim::Reserve(uint64_t bytes, bool held) {
  if (own_ != nullptr) SPARSEAGG_RETURN_IF_ERROR(own_->Reserve(bytes, held));
  absl::Status taken;
  {
    std::lock_guard lock(admission_->mutex_);
    const bool oldest = !place_->settled && place_ == admission_->claims_.begin();
    taken = admission_->TakeLocked(bytes, oldest ? 0 : admission_->HeadroomLocked(), "the update");
    if (taken.ok() && held) place_->held += bytes;
  }
  if (!taken.ok() && own_ != nullptr) own_->Unreserve(bytes, held);
  return taken;
}

void Claim::Release(uint64_t bytes) {
  if (own_ != nullptr) own_->Release(bytes);
  Unreserve(bytes, /*held=*/true);
}

void Claim::Unreserve(uint64_t bytes, bool held) {
  std::lock_guard lock(admission_->mutex_);
  admission_->bytes_in_use_ -= bytes;
  if (held) place_->held -= bytes;
}

absl::StatusOr<Reservation> Claim::TakeIfPlenty(uint64_t bytes) {
  if (own_ != nullptr) SPARSEAGG_RETURN_IF_ERROR(own_->ReserveIfPlenty(bytes));
  const absl::Status taken = ReserveIfPlenty(bytes);
  if (!taken.ok()) {
    if (own_ != nullptr) own_->Unreserve(bytes, /*held=*/false);
    return taken;
  }
  return Reservation(combined_ != nullptr ? combined_ : admission_, bytes);
}

absl::Status Claim::ReserveIfPlenty(uint64_t bytes) {
  std::lock_guard lock(admission_->mutex_);
  const uint64_t headroom =
      std::max(admission_->HeadroomLocked(&*place_), admission_->bytes_max_ / 2);
  return admission_->TakeLocked(bytes, headroom, "the update");
}

void Claim::Settle() {
  if (own_ != nullptr) own_->Settle();
  std::lock_guard lock(admission_->mutex_);
  admission_->needs_.erase(admission_->needs_.find(place_->need));
  place_->settled = true;
  admission_->settled_.splice(admission_->settled_.end(), admission_->claims_, place_);
}

absl::Status Claim::Take(uint64_t bytes) { return Reserve(bytes, /*held=*/true); }

absl::StatusOr<Reservation> Claim::TakeReservation(uint64_t bytes) {
  SPARSEAGG_RETURN_IF_ERROR(Reserve(bytes, /*held=*/false));
  return Reservation(combined_ != nullptr ? combined_ : admission_, bytes);
}

absl::StatusOr<Reservation> Admission::Reserve(uint64_t bytes, std::string_view who) {
  SPARSEAGG_RETURN_IF_ERROR(Take(bytes, who));
  return Reservation(this, bytes);
}

Reservation Admission::RecordReservation(uint64_t bytes) {
  Resize(0, bytes);
  return Reservation(this, bytes);
}

absl::Status Admission::Take(uint64_t bytes, std::string_view who) {
  const auto [own, whole] = parts_;
  if (own != nullptr) {
    SPARSEAGG_RETURN_IF_ERROR(own->Take(bytes, who));
    const absl::Status taken = whole->Take(bytes, who);
    if (!taken.ok()) own->Release(bytes);
    return taken;
  }
  std::lock_guard lock(mutex_);
  return TakeLocked(bytes, HeadroomLocked(), who);
}

absl::StatusOr<Claim> Admission::Announce(uint64_t need, std::string_view who) {
  const auto [own, whole] = parts_;
  if (own != nullptr) {
    SPARSEAGG_ASSIGN_OR_RETURN(Claim of_own, own->Announce(need, who));
    SPARSEAGG_ASSIGN_OR_RETURN(Claim of_whole, whole->Announce(need, who));
    of_whole.own_ = std::make_unique<Claim>(std::move(of_own));
    of_whole.combined_ = this;
    return of_whole;
  }
  std::lock_guard lock(mutex_);
  // The oldest claim releases what it holds before another claim must have its whole need.
  const uint64_t held = claims_.empty() ? 0 : claims_.front().held;
  SPARSEAGG_RETURN_IF_ERROR(CheckRoomLocked(need, bytes_in_use_ - held, who));
  claims_.push_back({.need = need});
  needs_.insert(need);
  return Claim(this, std::prev(claims_.end()));
}

void Admission::RemoveClaim(Claim::Place place) {
  std::lock_guard lock(mutex_);
  bytes_in_use_ -= place->held;
  if (place->settled) {
    settled_.erase(place);
    return;
  }
  needs_.erase(needs_.find(place->need));
  claims_.erase(place);
}

uint64_t Admission::HeadroomLocked(const Claim::State* without) const {
  auto oldest = claims_.begin();
  if (oldest != claims_.end() && &*oldest == without) ++oldest;
  if (oldest == claims_.end()) return 0;
  auto largest = needs_.rbegin();
  if (without != nullptr && *largest == without->need) ++largest;
  return *largest > oldest->held ? *largest - oldest->held : 0;
}

absl::Status Admission::TakeLocked(uint64_t bytes, uint64_t headroom, std::string_view who) {
  SPARSEAGG_RETURN_IF_ERROR(CheckRoomLocked(bytes, bytes_in_use_ + headroom, who));
  bytes_in_use_ += bytes;
  return absl::OkStatus();
}

absl::Status Admission::CheckRoomLocked(uint64_t bytes, uint64_t taken,
                                        std::string_view who) const {
  const uint64_t free = FreeLocked(taken);
  if (bytes <= free) return absl::OkStatus();
  const std::string needs =
      absl::StrCat(std::string(who), " needs ", bytes, " bytes of ", text_.memory);
  if (bytes > bytes_max_) {
    return MakeError(absl::StatusCode::kResourceExhausted, text_.too_large,
                     absl::StrCat(needs, ", more than ", text_.limit, " = ", bytes_max_,
                                  "; send fewer entries or raise the limit"));
  }
  absl::Status full = MakeError(absl::StatusCode::kResourceExhausted, text_.full,
                                absl::StrCat(needs, " and ", free, " of ", text_.limit, " = ",
                                             bytes_max_, " are free; ", text_.remedy));
  return text_.retry_after_ms == 0 ? full : WithRetryAfter(full, text_.retry_after_ms);
}

uint64_t Admission::bytes_in_use() const {
  if (parts_[0] != nullptr) return parts_[0]->bytes_in_use();
  std::lock_guard lock(mutex_);
  return bytes_in_use_;
}

uint64_t Admission::bytes_free() const {
  const auto [own, whole] = parts_;
  if (own != nullptr) return std::min(own->bytes_free(), whole->bytes_free());
  std::lock_guard lock(mutex_);
  return FreeLocked(bytes_in_use_ + HeadroomLocked());
}

void Admission::Release(uint64_t bytes) {
  for (Admission* part : parts_) {
    if (part != nullptr) part->Release(bytes);
  }
  std::lock_guard lock(mutex_);
  bytes_in_use_ -= bytes;
}

void Admission::Resize(uint64_t old_bytes, uint64_t new_bytes) {
  for (Admission* part : parts_) {
    if (part != nullptr) part->Resize(old_bytes, new_bytes);
  }
  std::lock_guard lock(mutex_);
  bytes_in_use_ = bytes_in_use_ - old_bytes + new_bytes;
}

}  // namespace sparseagg
