// Unary calls from within the process, for listeners that speak another protocol than gRPC
// (service/http/). They go through gRPC's in-process channel, so that handlers, authorisation,
// limits, audit, metrics and log are those of a call over gRPC's own port. No type of gRPC is
// needed to make one.
#ifndef SPARSEAGG_SERVICE_RPC_LOCAL_LOCAL_CALLS_H_
#define SPARSEAGG_SERVICE_RPC_LOCAL_LOCAL_CALLS_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace sparseagg {

struct LocalCall {
  std::string method;   // "/sparseagg.v1.AggregationService/GetRound"
  std::string request;  // the serialized message
  // Passed to the handler. REQUIRES: keys are in lower case, values are printable ASCII.
  std::vector<std::pair<std::string, std::string>> metadata;
  std::string peer;                            // ForwardedCaller
  std::vector<std::string> certificate_names;  // ForwardedCaller
  std::optional<std::chrono::milliseconds> timeout;
};

struct LocalAnswer {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string message;     // of an error
  std::string details;     // of an error: a serialized google.rpc.Status
  std::string response;    // the serialized message; empty after an error
  std::string request_id;  // the trailer x-request-id
};

// Thread-safe.
class LocalCalls {
 public:
  virtual ~LocalCalls() = default;
  // Called once, from any thread; must not block.
  using Done = std::function<void(LocalAnswer)>;
  // Starts a call. The returned function cancels it, and does nothing once it is done.
  virtual std::function<void()> Start(LocalCall call, Done done) = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_LOCAL_LOCAL_CALLS_H_
