// Errors on the wire. An absl::Status with its reason and retry hint (base/status.h) has two forms
// there: google.rpc.Status in the "grpc-status-details-bin" trailer of a call, and
// sparseagg.v1.Error inside a stream. Both keep code, message, reason, metadata and retry hint. An
// absl code is the gRPC code of the same number.
#ifndef SPARSEAGG_PROTO_ERROR_DETAILS_H_
#define SPARSEAGG_PROTO_ERROR_DETAILS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "sparseagg/v1/types.pb.h"

namespace sparseagg {

// ErrorInfo.domain of every error of this service.
inline constexpr std::string_view kErrorDomain = "sparseagg";

// Longer messages are cut, because message and details must fit into the 8 KiB of headers that gRPC
// allows by default: the message percent-encoded, at up to three bytes per byte, and the details in
// base64.
inline constexpr size_t kErrorMessageBytesMax = 1000;

// Returns the length of the longest prefix of `text` that has at most `bytes_max` bytes and ends
// with a whole UTF-8 character. REQUIRES: text.size() > bytes_max.
size_t EndOfUtf8(std::string_view text, size_t bytes_max);

// Returns `message`, cut at a character boundary to kErrorMessageBytesMax.
std::string ClipErrorMessage(std::string_view message);

// Returns a serialized google.rpc.Status with ErrorInfo (when there is a reason) and RetryInfo
// (when a retry may help). REQUIRES: !status.ok().
std::string ErrorDetails(const absl::Status& status);

// Returns the status of a call that ended with this code, message and details. Without details of
// kErrorDomain the status has no reason.
absl::Status FromRpcError(int code, std::string_view message, std::string_view details);

v1::Error ToProto(const absl::Status& status);
absl::Status FromProto(const v1::Error& error);

}  // namespace sparseagg

#endif  // SPARSEAGG_PROTO_ERROR_DETAILS_H_
