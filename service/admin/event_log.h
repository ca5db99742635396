// Writes events to the log: state changes of rounds at level info, calls at level debug, calls that
// failed because of the server at level warning. It logs names and ids only: no value, no index and
// no error message, which may quote one.
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
  void OnRoundStalled(const RoundSnapshot& round, const absl::Status& why) override;
  void OnSubmission(const SubmissionReport& report) override;
  void OnVerification(const VerificationReport& report) override;
  void OnCallEnded(const CallMethod& method, const CallReport& report) override;

 private:
  const Log log_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ADMIN_EVENT_LOG_H_
