// When a failed call is repeated, and how long to wait before.
#ifndef SPARSEAGG_CLIENT_RETRY_H_
#define SPARSEAGG_CLIENT_RETRY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "client/client.h"

namespace sparseagg::client {

// Whether the same call may succeed later: the connection failed, or the server said so.
bool IsRetryable(const absl::Status& status);

// Counts the attempts of one call. Thread-compatible.
class RetryLoop {
 public:
  explicit RetryLoop(const ClientOptions& options) : options_(options) {}

  // After a failed attempt: waits and answers true when there is to be another.
  bool Again(const absl::Status& status);
  // The failed attempt got something done: the count starts anew.
  void MadeProgress() { attempts_ = 0; }
  // An attempt failed before this one.
  bool repeated() const { return repeated_; }

 private:
  const ClientOptions& options_;
  uint32_t attempts_ = 0;
  bool repeated_ = false;
};

// Milliseconds before attempt number `attempt` + 1 (attempt from 1), `random` in [0, 1).
uint64_t RetryDelayMs(const RetryPolicy& policy, uint32_t attempt, uint64_t hint_ms, double random);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_RETRY_H_
