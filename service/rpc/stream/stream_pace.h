// Checks whether the client of a stream is too slow. Only the time counts during which the server
// waits for nothing but the next message: the time in which flow control or unsent answers hold the
// client back does not.
//
//   rate   while a chunked update is in progress, a stream has a credit of upload-rate-window-ms
//          of waiting. Waiting uses it up, bytes fill it again at upload-rate-min.
//   idle   no message for upload-idle-ms while an update is in progress, otherwise stream-idle-ms
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
  // The message has arrived. `uploading`: a chunked update was in progress. DEADLINE_EXCEEDED
  // (UPLOAD_TOO_SLOW) if the credit is used up.
  absl::Status EndWait(Time now, uint64_t bytes, bool uploading);
  // Checks a wait that has not ended. ABORTED: UPLOAD_EXPIRED, STREAM_IDLE.
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
