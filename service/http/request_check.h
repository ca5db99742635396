// What the head of a request asks for, decided before its body is read: a call, a preflight of a
// browser, or an error. Nothing here knows sockets.
#ifndef SPARSEAGG_SERVICE_HTTP_REQUEST_CHECK_H_
#define SPARSEAGG_SERVICE_HTTP_REQUEST_CHECK_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "service/http/method_table.h"
#include "service/http/origins.h"
#include "service/http/request_parser.h"
#include "service/http/web_protocol.h"

namespace sparseagg {

struct EdgeRules {
  MethodTable methods;
  Origins origins;
  uint64_t message_bytes_max = 0;
};

// The longest body of any request.
inline uint64_t BodyBytesMax(const EdgeRules& rules, bool is_text) {
  return rules.message_bytes_max + (is_text ? rules.message_bytes_max / 2 : 0);
}

// A call, whose body follows.
struct CheckedRequest {
  const HttpMethod* method = nullptr;
  WebProtocol protocol = WebProtocol::kConnectJson;
  std::optional<std::chrono::milliseconds> timeout;
  std::vector<std::pair<std::string, std::string>> metadata;  // LocalCall::metadata
};

// Refuses every Transfer-Encoding but `chunked` alone in HTTP/1.1 (RFC 9112, 6.1 and 6.3). Beast of
// 1.74 ignores one that does not end so, and what a proxy in front takes for the body would be the
// next request. Nothing that follows such a head can be understood.
absl::Status CheckTransferEncoding(const RequestHead& head);

// Returns the call, or the answer to a request that is none. `body_bytes`: Content-Length, if it
// was sent.
std::variant<CheckedRequest, WebAnswer> CheckHead(const RequestHead& head,
                                                  std::optional<uint64_t> body_bytes,
                                                  const EdgeRules& rules);

// The headers that let the page which sent the request read the answer; empty for a request that no
// page sent, or one of another origin.
std::vector<std::pair<std::string, std::string>> CorsHeaders(const RequestHead& head,
                                                             const Origins& origins);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_HTTP_REQUEST_CHECK_H_
