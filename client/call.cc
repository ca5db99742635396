#include "client/call.h"

#include <algorithm>
#include <cctype>
#include <chrono>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/error_details.h"
#include "sparse/status.h"

namespace sparseagg::client {
namespace {

// The last clause of gRPC's message, which says what the system call said: "failed to connect to
// all addresses; last error: UNKNOWN: ipv4:127.0.0.1:50061: Failed to connect to remote host:
// Connection refused" -> "connection refused".
std::string LastClause(const std::string& message) {
  const size_t colon = message.rfind(": ");
  std::string clause = colon == std::string::npos ? message : message.substr(colon + 2);
  if (!clause.empty()) clause[0] = static_cast<char>(std::tolower(clause[0]));
  return clause;
}

struct Failure {
  const char* clue;  // in gRPC's message
  const char* reason;
  const char* words;
};

// Why no connection came about although somebody listens.
constexpr Failure kFailures[] = {
    {"certificate verify failed", "SERVER_NOT_TRUSTED",
     "no authority that is trusted here has signed its certificate, or that is over"},
    {"is not in peer certificate", "SERVER_HAS_OTHER_NAME", "its certificate is for another name"},
    {"wrong version number", "SERVER_WITHOUT_TLS", "it does not speak TLS"},
    {"Socket closed", "CONNECTION_CLOSED", "it closes the connection"},
};

absl::Status CannotConnect(const std::string& message, const std::string& target) {
  const auto error = [&](const char* reason, const std::string& words) {
    return MakeError(absl::StatusCode::kUnavailable, reason,
                     absl::StrCat("cannot reach ", target, ": ", words));
  };
  for (const Failure& failure : kFailures) {
    if (absl::StrContains(message, failure.clue)) return error(failure.reason, failure.words);
  }
  return error("CANNOT_CONNECT", LastClause(message));
}

}  // namespace

absl::Status Prepare(grpc::ClientContext& context, const ClientOptions& options,
                     uint64_t timeout_ms) {
  // What is longer than the clock's numbers go, as the largest number there is, would be over.
  constexpr uint64_t kTimeoutMsMax = uint64_t{10} * 365 * 24 * 3600 * 1000;
  if (timeout_ms > 0) {
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(std::min(timeout_ms, kTimeoutMsMax)));
  }
  if (!options.token) return absl::OkStatus();
  SPARSEAGG_ASSIGN_OR_RETURN(const std::string token, options.token());
  // gRPC would end the process. Most often it is a line feed, or a file with a byte order mark.
  if (!std::all_of(token.begin(), token.end(), absl::ascii_isprint)) {
    return MakeError(absl::StatusCode::kInvalidArgument, "TOKEN_INVALID",
                     "the token is not a string of printable ASCII characters");
  }
  context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
  return absl::OkStatus();
}

absl::Status ToStatus(const grpc::Status& status, const std::string& target) {
  if (status.ok()) return absl::OkStatus();
  absl::Status error =
      FromRpcError(status.error_code(), status.error_message(), status.error_details());
  if (!ErrorReason(error).empty()) return error;
  const std::string& message = status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:  // gRPC's word for calls that come while the server stops
      if (absl::StrContains(message, "failed to connect") ||
          absl::StrContains(message, "DNS resolution failed")) {
        return CannotConnect(message, target);
      }
      return MakeError(absl::StatusCode::kUnavailable, "CONNECTION_LOST",
                       absl::StrCat("the connection to ", target, " broke: ", LastClause(message)));
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return MakeError(absl::StatusCode::kDeadlineExceeded, "NO_ANSWER_IN_TIME",
                       absl::StrCat("no answer from ", target, " in time"));
    default:
      return error;
  }
}

std::string RoundName(const std::string& name) {
  return absl::StartsWith(name, "rounds/") ? name : absl::StrCat("rounds/", name);
}

}  // namespace sparseagg::client
