#include "proto/error_details.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/status.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace sparseagg {
namespace {

constexpr uint64_t kMsPerSecond = 1000;
constexpr uint64_t kNanosPerMs = 1'000'000;

// The longest wait: one year, which fits a 64-bit number of milliseconds many times over.
constexpr int64_t kRetrySecondsMax = 365 * 86400;

using Metadata = google::protobuf::Map<std::string, std::string>;

absl::Status MakeStatus(int code, std::string_view message, std::string_view reason,
                        const Metadata& metadata, uint64_t retry_after_ms) {
  const auto absl_code = static_cast<absl::StatusCode>(code);
  const absl::string_view text(message.data(), message.size());
  absl::Status status =
      reason.empty() ? absl::Status(absl_code, text) : MakeError(absl_code, reason, message);
  for (const auto& [key, value] : metadata) status = WithMetadata(std::move(status), key, value);
  return retry_after_ms == 0 ? status : WithRetryAfter(std::move(status), retry_after_ms);
}

uint64_t ToMs(const google::protobuf::Duration& delay) {
  if (delay.seconds() < 0 || delay.nanos() < 0) return 0;
  const uint64_t seconds = static_cast<uint64_t>(std::min(delay.seconds(), kRetrySecondsMax));
  return seconds * kMsPerSecond + static_cast<uint64_t>(delay.nanos()) / kNanosPerMs;
}

}  // namespace

size_t EndOfUtf8(std::string_view text, size_t bytes_max) {
  size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return end;
}

std::string ClipErrorMessage(std::string_view message) {
  if (message.size() <= kErrorMessageBytesMax) return std::string(message);
  constexpr std::string_view kMark = "...";
  const size_t end = EndOfUtf8(message, kErrorMessageBytesMax - kMark.size());
  return std::string(message.substr(0, end)).append(kMark);
}

std::string ErrorDetails(const absl::Status& status) {
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(ClipErrorMessage({status.message().data(), status.message().size()}));
  if (const std::string reason = ErrorReason(status); !reason.empty()) {
    google::rpc::ErrorInfo info;
    info.set_reason(reason);
    info.set_domain(std::string(kErrorDomain));
    for (const auto& [key, value] : ErrorMetadata(status)) (*info.mutable_metadata())[key] = value;
    details.add_details()->PackFrom(info);
  }
  if (const uint64_t ms = RetryAfterMs(status); ms > 0) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(static_cast<int64_t>(ms / kMsPerSecond));
    retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(ms % kMsPerSecond * kNanosPerMs));
    details.add_details()->PackFrom(retry);
  }
  return details.SerializeAsString();
}

absl::Status FromRpcError(int code, std::string_view message, std::string_view details) {
  std::string reason;
  Metadata metadata;
  uint64_t retry_after_ms = 0;
  google::rpc::Status parsed;
  if (parsed.ParseFromArray(details.data(), static_cast<int>(details.size()))) {
    for (const google::protobuf::Any& detail : parsed.details()) {
      google::rpc::ErrorInfo info;
      google::rpc::RetryInfo retry;
      if (detail.UnpackTo(&info) && info.domain() == kErrorDomain) {
        reason = info.reason();
        metadata = info.metadata();
      }
      if (detail.UnpackTo(&retry)) retry_after_ms = ToMs(retry.retry_delay());
    }
  }
  return MakeStatus(code, message, reason, metadata, retry_after_ms);
}

v1::Error ToProto(const absl::Status& status) {
  v1::Error error;
  error.set_code(static_cast<int>(status.code()));
  error.set_message(ClipErrorMessage({status.message().data(), status.message().size()}));
  error.set_reason(ErrorReason(status));
  for (const auto& [key, value] : ErrorMetadata(status)) (*error.mutable_metadata())[key] = value;
  error.set_retry_after_ms(RetryAfterMs(status));
  return error;
}

absl::Status FromProto(const v1::Error& error) {
  return MakeStatus(error.code(), error.message(), error.reason(), error.metadata(),
                    error.retry_after_ms());
}

}  // namespace sparseagg
