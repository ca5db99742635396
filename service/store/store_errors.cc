#include "service/store/store_errors.h"

#include "base/status.h"

namespace sparseagg {
namespace {

constexpr uint64_t kRetryAfterMs = 1000;

}  // namespace

absl::Status StoreFull(std::string_view message) {
  return WithRetryAfter(MakeError(absl::StatusCode::kResourceExhausted, "STORE_FULL", message),
                        kRetryAfterMs);
}

absl::Status StoreBusy(std::string_view message) {
  return WithRetryAfter(MakeError(absl::StatusCode::kUnavailable, "STORE_BUSY", message),
                        kRetryAfterMs);
}

absl::Status UploadLost() {
  return WithRetryAfter(
      MakeError(
          absl::StatusCode::kAborted, "UPLOAD_LOST",
          "the disk of the data directory was full before the received part of the update was "
          "synced, so that part was dropped; begin the update again"),
      kRetryAfterMs);
}

absl::Status StoreCorrupt(std::string_view message) {
  return MakeError(absl::StatusCode::kDataLoss, "STORE_CORRUPT", message);
}

}  // namespace sparseagg
