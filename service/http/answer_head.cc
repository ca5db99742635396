#include "service/http/answer_head.h"

#include <boost/beast/http/status.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace sparseagg {
namespace {

namespace http = boost::beast::http;

constexpr int kNoContent = 204;

// Returns "" for a status that is not in a standard (499); the reason may be empty.
std::string ReasonPhrase(int http_status) {
  const http::status status = http::int_to_status(static_cast<unsigned>(http_status));
  if (status == http::status::unknown) return "";
  const auto reason = http::obsolete_reason(status);
  return {reason.data(), reason.size()};
}

}  // namespace

std::string PrintHead(const WebAnswer& answer, const AnswerHead& head) {
  std::string text = absl::StrCat(
      "HTTP/1.1 ", answer.http_status, " ", ReasonPhrase(answer.http_status),
      "\r\ndate: ", absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::Now(), absl::UTCTimeZone()),
      "\r\n");
  const auto add = [&text](const std::string& name, const std::string& value) {
    absl::StrAppend(&text, name, ": ", value, "\r\n");
  };
  if (answer.http_status != kNoContent) {
    add("content-type", answer.content_type);
    add("content-length", absl::StrCat(answer.body.size()));
  }
  if (head.close || head.says_keep_alive) add("connection", head.close ? "close" : "keep-alive");
  for (const auto& [name, value] : answer.headers) add(name, value);
  for (const auto& [name, value] : head.cors) add(name, value);
  return text + "\r\n";
}

}  // namespace sparseagg
