#include "client/transport/transport_error.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"

namespace sparseagg::client {
namespace {

constexpr char kCannotConnect[] = "CANNOT_CONNECT";
constexpr char kNoAnswerInTime[] = "NO_ANSWER_IN_TIME";
constexpr char kProxyRefused[] = "PROXY_REFUSED";
constexpr char kProxyUnavailable[] = "PROXY_UNAVAILABLE";
constexpr char kIntermediaryRefused[] = "INTERMEDIARY_REFUSED";
constexpr char kIntermediaryUnavailable[] = "INTERMEDIARY_UNAVAILABLE";
constexpr char kNotGrpc[] = "NOT_GRPC";
constexpr char kServerNotTrusted[] = "SERVER_NOT_TRUSTED";
constexpr char kServerHasOtherName[] = "SERVER_HAS_OTHER_NAME";
constexpr char kServerWithoutTls[] = "SERVER_WITHOUT_TLS";

absl::Status Unavailable(const char* reason, const std::string& message) {
  return MakeError(absl::StatusCode::kUnavailable, reason, message);
}

std::string DescribeTarget(const Route& route) {
  return route.proxy.empty() ? route.target
                             : absl::StrCat(route.target, " by the HTTP proxy ", route.proxy);
}

std::string BypassAdvice(const Route& route) {
  return absl::StrCat("put ", route.host, " into no_proxy to go without it");
}

std::string WithBypassAdvice(const std::string& words, const Route& route) {
  return route.proxy.empty() ? words : absl::StrCat(words, "; ", BypassAdvice(route));
}

std::string NoAnswer(const Route& route) {
  return absl::StrCat("no answer from ", DescribeTarget(route), " in time");
}

// The last clause of gRPC's message, which is the error of the system call: "failed to connect to
// all addresses; last error: UNKNOWN: ipv4:127.0.0.1:50061: Failed to connect to remote host:
// Connection refused" -> "connection refused".
std::string LastClause(const std::string& message) {
  const size_t colon = message.rfind(": ");
  std::string clause = colon == std::string::npos ? message : message.substr(colon + 2);
  clause = clause.substr(0, std::min(clause.find(" ("), clause.find(']')));
  if (clause == "CANCELLED") return "cancelled";
  if (!clause.empty()) clause[0] = absl::ascii_tolower(static_cast<unsigned char>(clause[0]));
  return clause;
}

// The number that follows `words`.
std::optional<int> NumberAfter(std::string_view message, std::string_view words) {
  const size_t at = message.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = message.substr(at + words.size());
  int number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

// Returns whether a later request may get another answer than this HTTP status.
bool IsTransient(int http_status) {
  return http_status >= 500 || http_status == 408 || http_status == 429;
}

absl::Status ProxyAnswered(int http_status, const Route& route) {
  const std::string proxy = route.proxy.empty() ? std::string("an HTTP proxy")
                                                : absl::StrCat("the HTTP proxy ", route.proxy);
  const std::string status = absl::StrCat(" (status ", http_status, "); ");
  if (IsTransient(http_status)) {
    return Unavailable(kProxyUnavailable,
                       absl::StrCat(proxy, " cannot connect to ", route.target, " at the moment",
                                    status, "start the server there, or ", BypassAdvice(route)));
  }
  if (http_status == 407) {
    return Unavailable(
        kProxyRefused,
        absl::StrCat(proxy, " asks for a user before it connects to ", route.target, status,
                     "write http://USER:PASSWORD@HOST:PORT into the variable that "
                     "names it, or ",
                     BypassAdvice(route)));
  }
  return Unavailable(kProxyRefused,
                     absl::StrCat(proxy, " refuses to connect to ", route.target, status,
                                  "let it allow that, or ", BypassAdvice(route)));
}

// The meaning of an intermediary's status, and what to do.
std::string MeaningOf(int http_status) {
  switch (http_status) {
    case 401:
    case 407:
      return "it asks for credentials of its own; let it pass calls on without them";
    case 403:
      return "it does not let this caller through; let it allow that";
    case 404:
      return "it does not know these calls; let it forward gRPC to the server";
    case 413:
      return "the message is too large for it; raise its limit (client_max_body_size of nginx)";
    case 429:
      return "it takes no more calls at the moment; raise its limit";
    case 502:
    case 503:
    case 504:
      return "it does not reach the server; start the server, or correct where it forwards to";
    default:
      return IsTransient(http_status)
                 ? "it fails; see its log"
                 : "no sparseagg server sends that; let it forward gRPC to the server";
  }
}

absl::Status IntermediaryAnswered(int http_status, const Route& route) {
  return Unavailable(
      IsTransient(http_status) ? kIntermediaryUnavailable : kIntermediaryRefused,
      absl::StrCat("something in between (a reverse proxy?) answers at ", DescribeTarget(route),
                   " in place of the server, with status ", http_status, ": ",
                   MeaningOf(http_status), ", or give the server's own address"));
}

struct Failure {
  const char* clue;  // part of gRPC's message, in lower case and with blanks for "_"
  const char* reason;
  const char* words;
};

// Errors of a TLS connection to a peer that listens.
constexpr Failure kFailures[] = {
    {"certificate verify failed", kServerNotTrusted,
     "no authority that is trusted here has signed its certificate, or that is over"},
    {"is not in peer certificate", kServerHasOtherName, "its certificate is for another name"},
    {"hostname verification check failed", kServerHasOtherName,
     "its certificate is for another name"},
    {"wrong version number", kServerWithoutTls, "it does not speak TLS"},
};
// Errors of a connection that was closed before any answer.
constexpr const char* kClosed[] = {"socket closed", "connection reset by peer"};
constexpr const char* kSilent[] = {"timed out", "timeout", "fd shutdown", "endpoint closing",
                                   "handshake read failed"};
// Errors that show that the peer does not speak gRPC.
constexpr const char* kSpeaksHttp1 =
    " speaks HTTP/1 and not gRPC; give the port of the server, not of its admin page, write "
    "https:// where it has TLS, or turn HTTP/2 on in a reverse proxy before it";
constexpr const char* kLacksHttp2 =
    " speaks TLS without HTTP/2, which gRPC needs; give the port of the server, or turn HTTP/2 on "
    "in a reverse proxy before it";
constexpr Failure kOthers[] = {
    {"http1.x server", kNotGrpc, kSpeaksHttp1},
    // "HTTP/1.1 200 OK" read as an HTTP/2 frame has the type 'P' (80). gRPC 1.51 reports its status
    // as an error code.
    {"got frame type 80", kNotGrpc, kSpeaksHttp1},
    {"last error: ok", kNotGrpc, kSpeaksHttp1},
    {"no application protocol", kNotGrpc, kLacksHttp2},
    {"missing selected alpn", kNotGrpc, kLacksHttp2},
    {"failed parsing http/2", kNotGrpc, " does not speak gRPC; give the port of the server"},
};

absl::Status CannotConnect(const std::string& message, const Route& route) {
  // Versions of gRPC differ in case and in "_".
  const std::string text = absl::StrReplaceAll(absl::AsciiStrToLower(message), {{"_", " "}});
  for (const Failure& failure : kFailures) {
    if (absl::StrContains(text, failure.clue)) {
      return Unavailable(failure.reason,
                         absl::StrCat("cannot reach ", DescribeTarget(route), ": ", failure.words));
    }
  }
  for (const Failure& other : kOthers) {
    if (absl::StrContains(text, other.clue)) {
      return Unavailable(other.reason,
                         absl::StrCat("what answers at ", DescribeTarget(route), other.words));
    }
  }
  const auto has = [&text](const char* clue) { return absl::StrContains(text, clue); };
  if (std::ranges::any_of(kClosed, has)) {
    const std::string words =
        absl::StrCat("cannot reach ", DescribeTarget(route), ": it closes the connection");
    return Unavailable("CONNECTION_CLOSED", WithBypassAdvice(words, route));
  }
  if (std::ranges::any_of(kSilent, has)) {
    return Unavailable(kNoAnswerInTime, WithBypassAdvice(NoAnswer(route), route));
  }
  if (route.proxy.empty()) {
    return Unavailable(kCannotConnect,
                       absl::StrCat("cannot reach ", route.target, ": ", LastClause(message)));
  }
  return Unavailable(
      kProxyUnavailable,
      absl::StrCat("cannot reach the HTTP proxy ", route.proxy, " between here and ", route.target,
                   ": ", LastClause(message), "; start it, or ", BypassAdvice(route)));
}

// Whether the call ended without an answer, for which gRPC has several statuses.
bool IsConnectionLost(const grpc::Status& status) {
  const std::string& message = status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:  // of calls that arrive while the server stops
      return true;
    case grpc::StatusCode::UNKNOWN:
      return absl::StartsWith(message, "Stream removed");
    case grpc::StatusCode::INTERNAL:
      return absl::StartsWith(message, "Received RST_STREAM with error code 2");
    default:
      return false;
  }
}

}  // namespace

std::optional<absl::Status> TransportError(const grpc::Status& status, const Route& route) {
  const std::string& message = status.error_message();
  if (const auto http = NumberAfter(message, "HTTP proxy returned response code ")) {
    return ProxyAnswered(*http, route);
  }
  if (const auto http = NumberAfter(message, "Received http2 header with status: ")) {
    return IntermediaryAnswered(*http, route);
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return MakeError(absl::StatusCode::kDeadlineExceeded, kNoAnswerInTime,
                     WithBypassAdvice(NoAnswer(route), route));
  }
  if (!IsConnectionLost(status)) return std::nullopt;
  for (const char* words : {"failed to connect", "DNS resolution failed", "errors resolving"}) {
    if (absl::StrContains(message, words)) return CannotConnect(message, route);
  }
  return Unavailable("CONNECTION_LOST", absl::StrCat("the connection to ", DescribeTarget(route),
                                                     " broke: ", LastClause(message)));
}

bool IsPermanent(const absl::Status& error) {
  constexpr std::string_view kPermanent[] = {
      kProxyRefused,       kIntermediaryRefused, kNotGrpc,          kServerNotTrusted,
      kServerHasOtherName, kServerWithoutTls,    "SERVER_WITH_TLS",
  };
  return std::ranges::find(kPermanent, ErrorReason(error)) != std::end(kPermanent);
}

}  // namespace sparseagg::client
