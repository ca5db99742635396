// Writes what happened to the log: changes of rounds at level info, calls at level debug, calls
// that failed for a reason of the server's own at level warning. Names and ids only: no value, no
// index and no message of an error, which may quote one.
#ifndef SPARSEAGG_SERVICE_ADMIN_EVENT_LOG_H_
#define SPARSEAGG_SERVICE_ADMIN_EVENT_LOG_H_

#include <utility>

#include "service/engine/engine.h"
#include "service/rpc/call_observer.h"
#include "service/telemetry/log.h"

namespace sparseagg {

// Thread-safe.
class EventLog : public EngineObserver, public CallObserver {
 public:
  explicit EventLog(Log log) : log_(std::move(log)) {}

  void OnRoundState(const RoundSnapshot& round) override;
  void OnRoundWaits(const RoundSnapshot& round, const absl::Status& why) override;
  void OnSubmission(const SubmissionReport& report) override;
  void OnVerification(const VerificationReport& report) override;
  void OnCallEnded(const CallMethod& method, const CallReport& report) override;

 private:
  const Log log_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ADMIN_EVENT_LOG_H_
