// Whether a stream keeps its server waiting too long. What counts is the time that the server waits
// for the next message and for nothing else: a client that is waiting for the server, since answers
// or flow control hold it back, loses nothing by that.
//
//   rate   while an update in chunks is under way, a stream has a credit of upload-rate-window-ms
//          of waiting. Waiting uses it up, bytes fill it again at upload-rate-min.
//   idle   no message for upload-idle-ms while an update is under way, for stream-idle-ms else
#ifndef SPARSEAGG_SERVICE_RPC_STREAM_STREAM_PACE_H_
#define SPARSEAGG_SERVICE_RPC_STREAM_STREAM_PACE_H_

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "service/engine/limits.h"

namespace sparseagg {

// Thread-compatible. `limits` must outlive it.
class StreamPace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit StreamPace(const Limits& limits) : limits_(limits) {}

  // The server begins to wait for a message.
  void BeginWait(Time now) { begin_ = now; }
  // It came. `uploading`: an update in chunks was under way. DEADLINE_EXCEEDED (UPLOAD_TOO_SLOW).
  absl::Status EndWait(Time now, uint64_t bytes, bool uploading);
  // Still waiting. ABORTED: UPLOAD_EXPIRED, STREAM_IDLE.
  absl::Status CheckIdle(Time now, bool uploading) const;

 private:
  const Limits& limits_;
  Time begin_;
  double used_seconds_ = 0;  // of the credit
  // Since the credit was full.
  double waited_seconds_ = 0;
  uint64_t received_bytes_ = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_STREAM_STREAM_PACE_H_
