// The ids by which a call can be found in the logs of every program that took part in it: the
// caller's x-request-id, or one made here, and the W3C trace context
// (https://www.w3.org/TR/trace-context/).
//
//   traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//                version trace-id (32 hex)           parent-id (16)   flags
#ifndef SPARSEAGG_SERVICE_RPC_WIRE_REQUEST_IDS_H_
#define SPARSEAGG_SERVICE_RPC_WIRE_REQUEST_IDS_H_

#include <string>
#include <string_view>

namespace sparseagg {

inline constexpr char kRequestIdHeader[] = "x-request-id";
inline constexpr char kTraceparentHeader[] = "traceparent";

struct RequestIds {
  std::string request_id;
  std::string trace_id;   // empty: the caller sent no valid traceparent
  std::string parent_id;  // the caller's span
};

// Whether a caller's request id is accepted: 1 to 64 characters of [A-Za-z0-9._-].
bool IsRequestId(std::string_view text);

// 16 random hexadecimal digits.
std::string NewRequestId();

// Sets trace_id and parent_id; leaves them empty if `traceparent` is malformed, as the standard
// requires.
void ParseTraceparent(std::string_view traceparent, RequestIds& ids);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WIRE_REQUEST_IDS_H_
