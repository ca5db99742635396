#include "service/http/request_parser.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {

namespace http = boost::beast::http;

void PrepareParser(RequestParser& parser, HeldBytes held, uint64_t body_bytes_max) {
  parser.header_limit(kHttpHeadBytesMax);
  // CountedBody has the limit. Beast of 1.74 takes an absent one for 0.
  parser.body_limit(std::numeric_limits<uint64_t>::max());
  parser.eager(false);
  parser.get().body().held = std::move(held);
  parser.get().body().bytes_max = body_bytes_max;
}

std::pair<absl::Status, int> ParseError(const boost::beast::error_code& error,
                                        uint64_t body_bytes_max, uint64_t memory_bytes_max) {
  constexpr uint64_t kRetryAfterMs = 1000;  // a request takes seconds
  if (error == http::error::header_limit) {
    return {MakeError(absl::StatusCode::kResourceExhausted, "HEADERS_TOO_LARGE",
                      absl::StrCat("the head of the request has more than ", kHttpHeadBytesMax,
                                   " bytes")),
            431};
  }
  if (error == http::error::body_limit) {
    return {MakeError(absl::StatusCode::kResourceExhausted, "MESSAGE_TOO_LARGE",
                      absl::StrCat("the body has more than ", body_bytes_max,
                                   " bytes (message-bytes-max; in JSON and base64 a half more); "
                                   "send an update in chunks (UploadChunk)")),
            413};
  }
  if (error == boost::system::errc::not_enough_memory) {
    return {
        WithRetryAfter(
            MakeError(absl::StatusCode::kResourceExhausted, "HTTP_MEMORY_FULL",
                      absl::StrCat("http-bytes-max = ", memory_bytes_max,
                                   " bytes of requests and answers are in progress; try again")),
            kRetryAfterMs),
        0};
  }
  return {MakeError(absl::StatusCode::kInvalidArgument, "MALFORMED_REQUEST",
                    absl::StrCat("not a request of HTTP/1.1: ", error.message())),
          400};
}

}  // namespace sparseagg
