// What the edge tells those who count and log: every call of every service, health and reflection
// included. Free of gRPC's types, so that who listens need not know them.
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
  std::string_view path;  // "/sparseagg.v1.AggregationService/SubmitUpdate"; here in two halves:
  std::string_view service;
  std::string_view method;
  CallKind kind = CallKind::kUnary;
};

struct CallReport {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string reason;  // of an error, as in docs/api.md; may be empty
  double seconds = 0;  // from the arrival of its headers until its status was sent
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  RequestIds ids;
};

// Thread-safe, and quick: it runs on gRPC's threads. This one ignores everything.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // Once for each method of the own service, before the first call.
  virtual void OnMethod(const CallMethod& /*method*/) {}
  virtual void OnCallStarted(const CallMethod& /*method*/) {}
  // One message of a call, in either direction; bytes as on the wire, without framing. Zero for
  // services that are not this server's own.
  virtual void OnMessage(const CallMethod& /*method*/, uint64_t /*bytes_in*/,
                         uint64_t /*bytes_out*/) {}
  virtual void OnCallEnded(const CallMethod& /*method*/, const CallReport& /*report*/) {}
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_CALL_OBSERVER_H_
