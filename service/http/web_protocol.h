// The two protocols of the HTTP edge for unary calls: which one a request speaks, its body as a
// message, and the answer in its form. Nothing here knows sockets.
//
//   Connect    POST /package.Service/Method, the message as it is (application/proto) or in JSON
//              (application/json); an error is an HTTP status with a JSON object.
//              https://connectrpc.com/docs/protocol
//   gRPC-Web   the message in a frame (flags 1 byte, length 4 bytes, big endian), as it is
//              (application/grpc-web, +proto) or in base64 (-text); always HTTP status 200, and the
//              gRPC status in a last frame, whose flag is 0x80.
//              https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md
#ifndef SPARSEAGG_SERVICE_HTTP_WEB_PROTOCOL_H_
#define SPARSEAGG_SERVICE_HTTP_WEB_PROTOCOL_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/http/method_table.h"
#include "service/rpc/local/local_calls.h"

namespace sparseagg {

enum class WebProtocol : uint8_t { kConnectJson, kConnectProto, kGrpcWeb, kGrpcWebText };

// The content types that ProtocolOf() knows, for the header Accept-Post.
inline constexpr char kContentTypes[] =
    "application/json, application/proto, application/grpc-web, application/grpc-web+proto, "
    "application/grpc-web-text, application/grpc-web-text+proto";

// Returns nullopt for a content type that no protocol has. Parameters (";charset=utf-8") and the
// case of letters do not matter.
std::optional<WebProtocol> ProtocolOf(std::string_view content_type);

inline bool IsGrpcWeb(WebProtocol protocol) { return protocol >= WebProtocol::kGrpcWeb; }
// Whether a body is longer than its message, by at most a half.
inline bool IsText(WebProtocol protocol) {
  return protocol == WebProtocol::kConnectJson || protocol == WebProtocol::kGrpcWebText;
}

// Returns the message of a request, serialized. INVALID_ARGUMENT: MALFORMED_JSON, MALFORMED_BODY;
// UNIMPLEMENTED (COMPRESSION_NOT_SUPPORTED).
absl::StatusOr<std::string> DecodeRequest(WebProtocol protocol, const HttpMethod& method,
                                          std::string body);

// Reads a caller's time limit. `connect_ms` is the header Connect-Timeout-Ms, `grpc` is
// Grpc-Timeout; empty: not there. INVALID_ARGUMENT (INVALID_TIMEOUT).
absl::StatusOr<std::optional<std::chrono::milliseconds>> ParseTimeout(std::string_view connect_ms,
                                                                      std::string_view grpc);

struct WebAnswer {
  int http_status = 200;
  std::string content_type;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

// `http_status` replaces the one that belongs to the code of an error, unless it is 0.
WebAnswer EncodeAnswer(WebProtocol protocol, const HttpMethod& method, const LocalAnswer& answer,
                       int http_status = 0);

// The answer to a request that is refused before there is a call.
LocalAnswer ErrorAnswer(const absl::Status& error);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_HTTP_WEB_PROTOCOL_H_
