// The interface through which the RPC layer reports calls to metrics and logs: every call of every
// service, health and reflection included. It uses no gRPC types, so that observers need not depend
// on gRPC.
#ifndef SPARSEAGG_SERVICE_RPC_CALL_OBSERVER_H_
#define SPARSEAGG_SERVICE_RPC_CALL_OBSERVER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "service/rpc/wire/request_ids.h"

namespace sparseagg {

enum class CallKind : uint8_t { kUnary, kClientStream, kServerStream, kBidiStream };

struct CallMethod {
  std::string_view path;  // "/sparseagg.v1.AggregationService/SubmitUpdate"; its two parts:
  std::string_view service;
  std::string_view method;
  CallKind kind = CallKind::kUnary;
};

struct CallReport {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string reason;  // of an error, from docs/api.md; may be empty
  double seconds = 0;  // from the arrival of the headers to the sending of the status
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  RequestIds ids;
};

// Implementations must be thread-safe and must not block, because they run on gRPC's threads. This
// base class ignores everything.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // Called once for each method of the AggregationService, before the first call.
  virtual void OnMethod(const CallMethod& /*method*/) {}
  virtual void OnCallStarted(const CallMethod& /*method*/) {}
  // Called for each message, in either direction, with its bytes on the wire without framing; they
  // are 0 for other services (health, reflection).
  virtual void OnMessage(const CallMethod& /*method*/, uint64_t /*bytes_in*/,
                         uint64_t /*bytes_out*/) {}
  virtual void OnCallEnded(const CallMethod& /*method*/, const CallReport& /*report*/) {}
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_CALL_OBSERVER_H_
