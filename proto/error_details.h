// Errors on the wire. An absl::Status with its reason and retry hint (base/status.h) travels in
// two forms: as google.rpc.Status in the "grpc-status-details-bin" trailer of a call, and as
// sparseagg.v1.Error inside a stream. Both ways keep code, message, reason and retry hint. An absl
// code is the gRPC code of the same number.
#ifndef SPARSEAGG_PROTO_ERROR_DETAILS_H_
#define SPARSEAGG_PROTO_ERROR_DETAILS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "sparseagg/v1/types.pb.h"

namespace sparseagg {

// ErrorInfo.domain of every error of this service.
inline constexpr std::string_view kErrorDomain = "sparseagg";

// Longer messages are cut: message and details must fit into the 8 KiB of headers that gRPC allows
// by default, the message percent-encoded at up to three bytes a byte, the details in base64.
inline constexpr size_t kErrorMessageBytesMax = 1000;

// As much of `text` as `bytes_max` bytes hold of whole UTF-8 characters. REQUIRES: text.size() >
// bytes_max.
size_t EndOfUtf8(std::string_view text, size_t bytes_max);

// `message`, cut at a character's border to kErrorMessageBytesMax.
std::string ClipErrorMessage(std::string_view message);

// A serialized google.rpc.Status with ErrorInfo (when there is a reason) and RetryInfo (when a
// retry may help). REQUIRES: !status.ok().
std::string ErrorDetails(const absl::Status& status);

// The status of a call that ended with this code, message and details. Details that are absent or
// not ours leave the status without a reason.
absl::Status FromRpcError(int code, std::string_view message, std::string_view details);

v1::Error ToProto(const absl::Status& status);
absl::Status FromProto(const v1::Error& error);

}  // namespace sparseagg

#endif  // SPARSEAGG_PROTO_ERROR_DETAILS_H_
