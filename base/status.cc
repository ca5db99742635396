#include "base/status.h"

#include <cstdint>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace sparseagg {
namespace {

constexpr char kReasonUrl[] = "sparseagg/reason";
constexpr char kRetryUrl[] = "sparseagg/retry_after_ms";
constexpr char kMetadataUrl[] = "sparseagg/metadata/";  // and the key

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

absl::Status WithMetadata(absl::Status status, std::string_view key, std::string_view value) {
  status.SetPayload(absl::StrCat(kMetadataUrl, std::string(key)), absl::Cord(std::string(value)));
  return status;
}

std::map<std::string, std::string> ErrorMetadata(const absl::Status& status) {
  std::map<std::string, std::string> metadata;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& value) {
    if (!absl::StartsWith(url, kMetadataUrl)) return;
    url.remove_prefix(sizeof(kMetadataUrl) - 1);
    metadata[std::string(url)] = std::string(value);
  });
  return metadata;
}

absl::Status WithMessage(const absl::Status& status, std::string_view message) {
  absl::Status other(status.code(), std::string(message));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& value) { other.SetPayload(url, value); });
  return other;
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
