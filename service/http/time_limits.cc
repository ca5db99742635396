#include "service/http/time_limits.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {

using std::chrono::milliseconds;

milliseconds BodyWaitTime(const Limits& limits) {
  return milliseconds(limits.upload_rate_min == 0 ? limits.upload_idle_ms
                                                  : limits.upload_rate_window_ms);
}

milliseconds AnswerTime(const Limits& limits, size_t bytes) {
  if (const uint64_t rate = limits.upload_rate_min; rate > 0) {
    return milliseconds(limits.upload_rate_window_ms + bytes * 1000 / rate);
  }
  return milliseconds(limits.stream_idle_ms == 0 ? limits.upload_idle_ms : limits.stream_idle_ms);
}

absl::Status TooSlow(const char* what) {
  return MakeError(absl::StatusCode::kDeadlineExceeded, "REQUEST_TOO_SLOW",
                   absl::StrCat(what, "; send it faster, over a connection of its own"));
}

}  // namespace sparseagg
