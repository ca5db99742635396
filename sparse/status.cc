#include "sparse/status.h"

#include <cstdint>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace sparseagg {
namespace {

constexpr char kReasonUrl[] = "sparseagg/reason";
constexpr char kRetryUrl[] = "sparseagg/retry_after_ms";

}  // namespace

absl::Status MakeError(absl::StatusCode code, std::string_view reason, std::string_view message) {
  absl::Status status(code, std::string(message));
  status.SetPayload(kReasonUrl, absl::Cord(std::string(reason)));
  return status;
}

std::string ErrorReason(const absl::Status& status) {
  const auto payload = status.GetPayload(kReasonUrl);
  return payload.has_value() ? std::string(*payload) : std::string();
}

absl::Status WithRetryAfter(absl::Status status, uint64_t ms) {
  status.SetPayload(kRetryUrl, absl::Cord(absl::StrCat(ms)));
  return status;
}

uint64_t RetryAfterMs(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryUrl);
  uint64_t ms = 0;
  if (payload.has_value() && !absl::SimpleAtoi(std::string(*payload), &ms)) return 0;
  return ms;
}

}  // namespace sparseagg
