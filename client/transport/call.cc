#include "client/transport/call.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/transport/tls_probe.h"
#include "client/transport/transport_error.h"
#include "proto/error_details.h"

namespace sparseagg::client {

absl::Status CheckProcess(pid_t process) {
  if (getpid() == process) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition, "CLIENT_FORKED",
      "this process was forked from one with a client, and gRPC does not work in forked children; "
      "fork before the first client is made, or execute a new program");
}

absl::Status Prepare(grpc::ClientContext& context, const Caller& caller, uint64_t timeout_ms) {
  SPARSEAGG_RETURN_IF_ERROR(CheckProcess(caller.process));
  // A limit beyond the clock's range would overflow to a deadline in the past.
  constexpr uint64_t kTimeoutMsMax = uint64_t{10} * 365 * 24 * 3600 * 1000;
  if (timeout_ms > 0) {
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(std::min(timeout_ms, kTimeoutMsMax)));
  }
  if (!caller.options.token) return absl::OkStatus();
  SPARSEAGG_ASSIGN_OR_RETURN(const std::string token, caller.options.token());
  // gRPC would abort the process. The usual cause is a line feed, or a file with a byte order mark.
  if (!std::all_of(token.begin(), token.end(), absl::ascii_isprint)) {
    return MakeError(absl::StatusCode::kInvalidArgument, "TOKEN_INVALID",
                     "the token is not a string of printable ASCII characters");
  }
  context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
  return absl::OkStatus();
}

absl::Status ToStatus(const grpc::Status& status, const Route& route) {
  if (status.ok()) return absl::OkStatus();
  absl::Status error =
      FromRpcError(status.error_code(), status.error_message(), status.error_details());
  if (!ErrorReason(error).empty()) return error;
  error = TransportError(status, route).value_or(error);
  const bool asks = ErrorReason(error) == "CONNECTION_CLOSED" && !route.probe_address.empty();
  if (!asks || !SpeaksTls(route.probe_address)) return error;
  return MakeError(absl::StatusCode::kUnavailable, "SERVER_WITH_TLS",
                   absl::StrCat("cannot reach ", route.target, ": it speaks TLS; write https://"));
}

std::string RoundName(const std::string& name) {
  return absl::StartsWith(name, "rounds/") ? name : absl::StrCat("rounds/", name);
}

}  // namespace sparseagg::client
