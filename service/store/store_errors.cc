#include "service/store/store_errors.h"

#include "sparse/status.h"

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

absl::Status StoreCorrupt(std::string_view message) {
  return MakeError(absl::StatusCode::kDataLoss, "STORE_CORRUPT", message);
}

}  // namespace sparseagg
