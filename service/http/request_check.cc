#include "service/http/request_check.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/verb.hpp>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

namespace http = boost::beast::http;

constexpr int kNoContent = 204;
constexpr int kNotFound = 404;
constexpr int kMethodNotAllowed = 405;
constexpr int kTooLarge = 413;
constexpr int kUnsupportedMediaType = 415;

constexpr char kVerbs[] = "POST, OPTIONS";
constexpr char kRequestHeaders[] =
    "Authorization, Content-Type, Connect-Protocol-Version, Connect-Timeout-Ms, Grpc-Timeout, "
    "Traceparent, X-Grpc-Web, X-Request-Id, X-User-Agent";
constexpr char kAnswerHeaders[] =
    "Grpc-Message, Grpc-Status, Grpc-Status-Details-Bin, Retry-After, X-Request-Id";

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

// What a caller sent, for a message: without control characters, and not all of something long.
std::string Quoted(std::string_view text) {
  constexpr size_t kShown = 80;
  return absl::StrCat("\"", absl::CHexEscape(std::string(text.substr(0, kShown))), "\"");
}

WebAnswer Refuse(WebProtocol protocol, const absl::Status& why, int http_status = 0) {
  return EncodeAnswer(protocol, HttpMethod(), ErrorAnswer(why), http_status);
}

absl::Status Invalid(std::string_view reason, const std::string& message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason, message);
}

absl::Status Unimplemented(std::string_view reason, const std::string& message) {
  return MakeError(absl::StatusCode::kUnimplemented, reason, message);
}

// The answer to OPTIONS. Without the headers of CORS (CorsHeaders()) a browser takes it for a no.
WebAnswer AnswerOptions(const RequestHead& head) {
  WebAnswer answer{.http_status = kNoContent, .content_type = {}, .headers = {}, .body = {}};
  answer.headers.emplace_back("allow", kVerbs);
  if (head.count(http::field::origin) == 0) return answer;
  answer.headers.emplace_back("access-control-allow-methods", kVerbs);
  answer.headers.emplace_back("access-control-allow-headers", kRequestHeaders);
  answer.headers.emplace_back("access-control-max-age", "7200");
  // A page of the internet may reach a server of the private network only if the server says so.
  if (head.find("access-control-request-private-network") != head.end()) {
    answer.headers.emplace_back("access-control-allow-private-network", "true");
  }
  return answer;
}

// Returns the refusal, if the request is none that a call could have.
std::optional<WebAnswer> CheckRequestLine(const RequestHead& head, const EdgeRules& rules) {
  const std::string_view target = View(head.target());
  const WebProtocol connect = WebProtocol::kConnectJson;
  const HttpMethod* method = rules.methods.Find(target);
  if (method == nullptr) {
    return Refuse(
        connect,
        Unimplemented("UNKNOWN_METHOD",
                      absl::StrCat("there is no call ", Quoted(target),
                                   "; a path is /package.Service/Method, see docs/http.md")),
        kNotFound);
  }
  if (method->streams) {
    return Refuse(
        connect,
        Unimplemented("METHOD_STREAMS", absl::StrCat(method->path,
                                                     " is a stream, which HTTP has no form for "
                                                     "here; see docs/http.md for its unary twin")));
  }
  if (head.method() != http::verb::post) {
    WebAnswer refusal = Refuse(
        connect,
        Unimplemented("METHOD_NOT_ALLOWED", absl::StrCat(method->path, " is called with POST")),
        kMethodNotAllowed);
    refusal.headers.emplace_back("allow", kVerbs);
    return refusal;
  }
  return std::nullopt;
}

absl::Status CheckEncoding(const RequestHead& head) {
  const std::string_view encoding = View(head[http::field::content_encoding]);
  if (encoding.empty() || encoding == "identity") return absl::OkStatus();
  return Unimplemented(
      "COMPRESSION_NOT_SUPPORTED",
      absl::StrCat("Content-Encoding is ", Quoted(encoding), "; send the body as it is"));
}

absl::Status ReadMetadata(const RequestHead& head, CheckedRequest& request) {
  const auto [begin, end] = head.equal_range(http::field::authorization);
  for (auto header = begin; header != end; ++header) {
    const std::string_view value = View(header->value());
    if (!IsPrintable(value)) {
      return Invalid("INVALID_HEADER", "Authorization has characters that are not printable ASCII");
    }
    request.metadata.emplace_back("authorization", value);
  }
  for (const char* name : {"x-request-id", "traceparent"}) {
    const std::string_view value = View(head[name]);
    if (!value.empty() && IsPrintable(value)) request.metadata.emplace_back(name, value);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTransferEncoding(const RequestHead& head) {
  const size_t count = head.count(http::field::transfer_encoding);
  if (count == 0) return absl::OkStatus();
  constexpr unsigned kHttp11 = 11;
  const auto value = head[http::field::transfer_encoding];
  if (count == 1 && boost::beast::iequals(value, "chunked") && head.version() == kHttp11) {
    return absl::OkStatus();
  }
  return Invalid("MALFORMED_REQUEST",
                 absl::StrCat("Transfer-Encoding is ", Quoted(View(value)),
                              "; send the body with Content-Length, or in HTTP/1.1 as \"chunked\" "
                              "alone"));
}

std::variant<CheckedRequest, WebAnswer> CheckHead(const RequestHead& head,
                                                  std::optional<uint64_t> body_bytes,
                                                  const EdgeRules& rules) {
  const std::string_view origin = View(head[http::field::origin]);
  if (head.count(http::field::origin) > 0 && !rules.origins.Allows(origin)) {
    return Refuse(WebProtocol::kConnectJson,
                  MakeError(absl::StatusCode::kPermissionDenied, "ORIGIN_NOT_ALLOWED",
                            absl::StrCat("pages of ", Quoted(origin),
                                         " may not use this server; http-origins lists those that "
                                         "may")));
  }
  if (head.method() == http::verb::options) return AnswerOptions(head);
  if (auto refusal = CheckRequestLine(head, rules); refusal.has_value()) return *refusal;

  CheckedRequest request{.method = rules.methods.Find(View(head.target()))};
  const std::string_view content_type = View(head[http::field::content_type]);
  const std::optional<WebProtocol> protocol = ProtocolOf(content_type);
  if (!protocol.has_value()) {
    WebAnswer refusal = Refuse(
        WebProtocol::kConnectJson,
        Invalid("CONTENT_TYPE_UNKNOWN", absl::StrCat("Content-Type is ", Quoted(content_type),
                                                     "; use one of ", kContentTypes)),
        kUnsupportedMediaType);
    refusal.headers.emplace_back("accept-post", kContentTypes);
    return refusal;
  }
  request.protocol = *protocol;
  const uint64_t bytes_max = BodyBytesMax(rules, IsText(*protocol));
  if (body_bytes.value_or(0) > bytes_max) {
    return Refuse(*protocol, ParseError(http::error::body_limit, bytes_max, 0).first, kTooLarge);
  }
  if (const absl::Status status = CheckEncoding(head); !status.ok()) {
    return Refuse(*protocol, status);
  }
  const auto timeout = ParseTimeout(View(head["connect-timeout-ms"]), View(head["grpc-timeout"]));
  if (!timeout.ok()) return Refuse(*protocol, timeout.status());
  request.timeout = *timeout;
  if (const absl::Status status = ReadMetadata(head, request); !status.ok()) {
    return Refuse(*protocol, status);
  }
  return request;
}

std::vector<std::pair<std::string, std::string>> CorsHeaders(const RequestHead& head,
                                                             const Origins& origins) {
  const std::string_view origin = View(head[http::field::origin]);
  if (head.count(http::field::origin) == 0) return {};
  if (!origins.Allows(origin) || !IsPrintable(origin)) return {{"vary", "Origin"}};
  return {{"access-control-allow-origin", std::string(origin)},
          {"access-control-expose-headers", kAnswerHeaders},
          {"vary", "Origin"}};
}

}  // namespace sparseagg
