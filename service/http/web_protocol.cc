#include "service/http/web_protocol.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "google/rpc/status.pb.h"
#include "proto/error_details.h"
#include "service/http/transcode.h"

namespace sparseagg {
namespace {

constexpr char kJson[] = "application/json";
constexpr uint8_t kCompressed = 0x01;
constexpr uint8_t kTrailers = 0x80;
constexpr size_t kFrameHeadBytes = 5;

// Connect's name of a code, and its HTTP status.
struct Code {
  absl::StatusCode code;
  const char* name;
  int http_status;
};
constexpr Code kCodes[] = {
    {absl::StatusCode::kCancelled, "canceled", 499},
    {absl::StatusCode::kUnknown, "unknown", 500},
    {absl::StatusCode::kInvalidArgument, "invalid_argument", 400},
    {absl::StatusCode::kDeadlineExceeded, "deadline_exceeded", 504},
    {absl::StatusCode::kNotFound, "not_found", 404},
    {absl::StatusCode::kAlreadyExists, "already_exists", 409},
    {absl::StatusCode::kPermissionDenied, "permission_denied", 403},
    {absl::StatusCode::kResourceExhausted, "resource_exhausted", 429},
    {absl::StatusCode::kFailedPrecondition, "failed_precondition", 400},
    {absl::StatusCode::kAborted, "aborted", 409},
    {absl::StatusCode::kOutOfRange, "out_of_range", 400},
    {absl::StatusCode::kUnimplemented, "unimplemented", 501},
    {absl::StatusCode::kInternal, "internal", 500},
    {absl::StatusCode::kUnavailable, "unavailable", 503},
    {absl::StatusCode::kDataLoss, "data_loss", 500},
    {absl::StatusCode::kUnauthenticated, "unauthenticated", 401},
};

const Code& CodeOf(absl::StatusCode code) {
  for (const Code& row : kCodes) {
    if (row.code == code) return row;
  }
  return kCodes[1];  // unknown
}

absl::Status Malformed(const std::string& message) {
  return MakeError(absl::StatusCode::kInvalidArgument, "MALFORMED_BODY", message);
}

std::string Base64(std::string_view bytes) {
  std::string text = absl::Base64Escape(absl::string_view(bytes.data(), bytes.size()));
  while (text.ends_with('=')) text.pop_back();
  return text;
}

// A body in base64, which may be several such texts, each with its padding.
absl::StatusOr<std::string> FromBase64(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    size_t end = std::min(text.find('='), text.size());
    while (end < text.size() && text[end] == '=') ++end;
    std::string part;
    if (!absl::Base64Unescape(absl::string_view(text.data(), end), &part)) {
      return Malformed("the body is not base64, as application/grpc-web-text must be");
    }
    bytes += part;
    text.remove_prefix(end);
  }
  return bytes;
}

std::string FrameHead(uint8_t flags, size_t bytes) {
  std::string head(1, static_cast<char>(flags));
  for (int shift = 24; shift >= 0; shift -= 8) head.push_back(static_cast<char>(bytes >> shift));
  return head;
}

absl::StatusOr<std::string> MessageOfFrame(std::string body) {
  if (body.size() < kFrameHeadBytes) {
    return Malformed(absl::StrCat("a body of ", body.size(),
                                  " bytes has no frame of gRPC-Web, which begins with 5 bytes"));
  }
  const auto byte = [&body](size_t i) { return static_cast<uint8_t>(body[i]); };
  if ((byte(0) & kCompressed) != 0) {
    return MakeError(absl::StatusCode::kUnimplemented, "COMPRESSION_NOT_SUPPORTED",
                     "the message is compressed; send it as it is");
  }
  const uint64_t bytes = uint64_t{byte(1)} << 24 | uint64_t{byte(2)} << 16 |
                         uint64_t{byte(3)} << 8 | uint64_t{byte(4)};
  if (byte(0) != 0 || bytes != body.size() - kFrameHeadBytes) {
    return Malformed(absl::StrCat("the frame has the flags ", byte(0), " and states ", bytes,
                                  " bytes, and ", body.size() - kFrameHeadBytes,
                                  " follow; send one message in one frame"));
  }
  body.erase(0, kFrameHeadBytes);
  return body;
}

// An error of Connect: https://connectrpc.com/docs/protocol#error-end-stream
std::string ErrorJson(const LocalAnswer& answer) {
  using Json = nlohmann::ordered_json;
  Json error = {{"code", CodeOf(answer.code).name}, {"message", answer.message}};
  google::rpc::Status status;
  if (status.ParseFromString(answer.details)) {
    for (const google::protobuf::Any& any : status.details()) {
      const std::string type = any.type_url().substr(any.type_url().rfind('/') + 1);
      Json detail = {{"type", type}, {"value", Base64(any.value())}};
      if (const auto debug = MessageToJson(type, any.value()); debug.ok()) {
        detail["debug"] = Json::parse(*debug, nullptr, /*allow_exceptions=*/false);
      }
      error["details"].push_back(std::move(detail));
    }
  }
  return error.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// As gRPC writes grpc-message.
std::string PercentEncoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c >= ' ' && c <= '~' && c != '%') {
      out.push_back(c);
    } else {
      absl::StrAppend(&out, "%",
                      absl::AsciiStrToUpper(absl::BytesToHexString(absl::string_view(&c, 1))));
    }
  }
  return out;
}

std::string TrailersFrame(const LocalAnswer& answer) {
  std::string trailers = absl::StrCat("grpc-status: ", static_cast<int>(answer.code), "\r\n");
  if (!answer.message.empty()) {
    absl::StrAppend(&trailers, "grpc-message: ", PercentEncoded(answer.message), "\r\n");
  }
  if (!answer.details.empty()) {
    absl::StrAppend(&trailers, "grpc-status-details-bin: ", Base64(answer.details), "\r\n");
  }
  return FrameHead(kTrailers, trailers.size()) + trailers;
}

WebAnswer EncodeConnectError(const LocalAnswer& answer, int http_status) {
  return {.http_status = http_status != 0 ? http_status : CodeOf(answer.code).http_status,
          .content_type = kJson,
          .headers = {},
          .body = ErrorJson(answer)};
}

WebAnswer EncodeConnect(WebProtocol protocol, const HttpMethod& method, const LocalAnswer& answer,
                        int http_status) {
  if (answer.code != absl::StatusCode::kOk) return EncodeConnectError(answer, http_status);
  if (protocol == WebProtocol::kConnectProto) {
    return {.content_type = "application/proto", .headers = {}, .body = answer.response};
  }
  absl::StatusOr<std::string> json = MessageToJson(method.response_type, answer.response);
  if (!json.ok()) return EncodeConnectError(ErrorAnswer(json.status()), 0);
  return {.content_type = kJson, .headers = {}, .body = *std::move(json)};
}

WebAnswer EncodeGrpcWeb(WebProtocol protocol, const LocalAnswer& answer) {
  std::string body;
  if (answer.code == absl::StatusCode::kOk) {
    body = FrameHead(0, answer.response.size()) + answer.response;
  }
  body += TrailersFrame(answer);
  const bool text = protocol == WebProtocol::kGrpcWebText;
  return {.content_type = text ? "application/grpc-web-text+proto" : "application/grpc-web+proto",
          .headers = {},
          .body = text ? absl::Base64Escape(body) : std::move(body)};
}

}  // namespace

std::optional<WebProtocol> ProtocolOf(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  const std::string name = absl::AsciiStrToLower(
      absl::StripAsciiWhitespace(absl::string_view(type.data(), type.size())));
  constexpr std::pair<std::string_view, WebProtocol> kTypes[] = {
      {kJson, WebProtocol::kConnectJson},
      {"application/proto", WebProtocol::kConnectProto},
      {"application/grpc-web", WebProtocol::kGrpcWeb},
      {"application/grpc-web+proto", WebProtocol::kGrpcWeb},
      {"application/grpc-web-text", WebProtocol::kGrpcWebText},
      {"application/grpc-web-text+proto", WebProtocol::kGrpcWebText},
  };
  for (const auto& [known, protocol] : kTypes) {
    if (name == known) return protocol;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> DecodeRequest(WebProtocol protocol, const HttpMethod& method,
                                          std::string body) {
  switch (protocol) {
    case WebProtocol::kConnectJson:
      return JsonToMessage(method.request_type, body);
    case WebProtocol::kConnectProto:
      return body;
    case WebProtocol::kGrpcWeb:
      return MessageOfFrame(std::move(body));
    case WebProtocol::kGrpcWebText: {
      SPARSEAGG_ASSIGN_OR_RETURN(std::string frame, FromBase64(body));
      return MessageOfFrame(std::move(frame));
    }
  }
  return body;
}

absl::StatusOr<std::optional<std::chrono::milliseconds>> ParseTimeout(std::string_view connect_ms,
                                                                      std::string_view grpc) {
  // Connect allows ten digits, gRPC eight and a unit.
  constexpr std::pair<char, double> kUnitsMs[] = {{'H', 3.6e6}, {'M', 6e4},  {'S', 1e3},
                                                  {'m', 1},     {'u', 1e-3}, {'n', 1e-6}};
  const auto digits_ok = [](std::string_view digits, size_t most) {
    return !digits.empty() && digits.size() <= most &&
           digits.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const auto invalid = [](std::string_view header, std::string_view value) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "INVALID_TIMEOUT",
        absl::StrCat(std::string(header), ": ", absl::CHexEscape(std::string(value.substr(0, 20))),
                     " is not a time limit"));
  };
  int64_t number = 0;
  if (!connect_ms.empty()) {
    if (!digits_ok(connect_ms, 10)) return invalid("Connect-Timeout-Ms", connect_ms);
    if (!absl::SimpleAtoi(std::string(connect_ms), &number)) number = 0;
    return std::chrono::milliseconds(number);
  }
  if (grpc.empty()) return std::nullopt;
  for (const auto& [unit, ms] : kUnitsMs) {
    const std::string_view digits = grpc.substr(0, grpc.size() - 1);
    if (grpc.back() != unit || !digits_ok(digits, 8)) continue;
    if (!absl::SimpleAtoi(std::string(digits), &number)) number = 0;
    return std::chrono::milliseconds(static_cast<int64_t>(static_cast<double>(number) * ms));
  }
  return invalid("Grpc-Timeout", grpc);
}

WebAnswer EncodeAnswer(WebProtocol protocol, const HttpMethod& method, const LocalAnswer& answer,
                       int http_status) {
  WebAnswer encoded = IsGrpcWeb(protocol) ? EncodeGrpcWeb(protocol, answer)
                                          : EncodeConnect(protocol, method, answer, http_status);
  if (!answer.request_id.empty()) encoded.headers.emplace_back("x-request-id", answer.request_id);
  if (answer.code != absl::StatusCode::kOk) {
    constexpr uint64_t kMsPerSecond = 1000;
    const uint64_t ms =
        RetryAfterMs(FromRpcError(static_cast<int>(answer.code), answer.message, answer.details));
    if (ms > 0) {
      const uint64_t seconds = (ms + kMsPerSecond - 1) / kMsPerSecond;
      encoded.headers.emplace_back("retry-after", absl::StrCat(seconds));
    }
  }
  return encoded;
}

LocalAnswer ErrorAnswer(const absl::Status& error) {
  return {.code = error.code(),
          .message = ClipErrorMessage({error.message().data(), error.message().size()}),
          .details = ErrorDetails(error)};
}

}  // namespace sparseagg
