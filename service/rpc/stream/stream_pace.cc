#include "service/rpc/stream/stream_pace.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

using Seconds = std::chrono::duration<double>;

}  // namespace

absl::Status StreamPace::EndWait(Time now, uint64_t bytes, bool uploading) {
  if (!uploading || limits_.upload_rate_min == 0) {
    used_seconds_ = waited_seconds_ = 0;
    received_bytes_ = 0;
    return absl::OkStatus();
  }
  const double waited = Seconds(now - begin_).count();
  waited_seconds_ += waited;
  received_bytes_ += bytes;
  used_seconds_ +=
      waited - static_cast<double>(bytes) / static_cast<double>(limits_.upload_rate_min);
  if (used_seconds_ <= 0) {
    used_seconds_ = waited_seconds_ = 0;
    received_bytes_ = 0;
  }
  if (used_seconds_ * 1000 <= static_cast<double>(limits_.upload_rate_window_ms)) {
    return absl::OkStatus();
  }
  return MakeError(
      absl::StatusCode::kDeadlineExceeded, "UPLOAD_TOO_SLOW",
      absl::StrCat(
          "the stream sent ", received_bytes_, " bytes in ", waited_seconds_,
          " s of the server's waiting, which is below upload-rate-min = ", limits_.upload_rate_min,
          " bytes/s over upload-rate-window-ms = ", limits_.upload_rate_window_ms,
          "; its unfinished updates are dropped; begin them again over a faster connection"));
}

absl::Status StreamPace::CheckIdle(Time now, bool uploading) const {
  const uint64_t idle_ms = uploading ? limits_.upload_idle_ms : limits_.stream_idle_ms;
  if (idle_ms == 0 || now - begin_ <= std::chrono::milliseconds(idle_ms)) return absl::OkStatus();
  if (uploading) {
    return MakeError(absl::StatusCode::kAborted, "UPLOAD_EXPIRED",
                     absl::StrCat("the stream received nothing for upload-idle-ms = ", idle_ms,
                                  "; its unfinished updates are dropped; begin them again"));
  }
  return MakeError(absl::StatusCode::kAborted, "STREAM_IDLE",
                   absl::StrCat("the stream received nothing for stream-idle-ms = ", idle_ms,
                                "; open a new one when there is something to send"));
}

}  // namespace sparseagg
