// Ends a call whose client does not read its answers: until an answer is read, the call holds the
// data that its answers are made from, which may be a whole result.
#ifndef SPARSEAGG_SERVICE_RPC_STREAM_UNREAD_LIMIT_H_
#define SPARSEAGG_SERVICE_RPC_STREAM_UNREAD_LIMIT_H_

#include <grpcpp/server_context.h>

#include <chrono>
#include <mutex>
#include <optional>

#include "service/engine/limits.h"

namespace sparseagg {

// Thread-safe.
class UnreadLimit {
 public:
  using Clock = std::chrono::steady_clock;

  // `context` must outlive every write.
  UnreadLimit(grpc::CallbackServerContext& context, const Limits& limits)
      : context_(context), longest_(limits.stream_idle_ms) {}

  void BeginWrite() {
    const std::lock_guard lock(mutex_);
    since_ = Clock::now();
  }
  void EndWrite() {
    const std::lock_guard lock(mutex_);
    since_.reset();
  }

  // Cancels the call if the current write has taken more than stream-idle-ms; the write then ends
  // with ok == false.
  void Check(Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    if (longest_.count() == 0 || !since_.has_value() || now - *since_ <= longest_) return;
    since_.reset();
    context_.TryCancel();
  }

 private:
  grpc::CallbackServerContext& context_;
  const std::chrono::milliseconds longest_;  // 0: no limit
  std::mutex mutex_;
  std::optional<Clock::time_point> since_;  // guarded by mutex_
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_STREAM_UNREAD_LIMIT_H_
