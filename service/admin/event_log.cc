#include "service/admin/event_log.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "service/engine/names.h"
#include "service/engine/observer.h"

namespace sparseagg {
namespace {

std::string_view EventOf(RoundState state) {
  switch (state) {
    case RoundState::kOpen:
      return "round created";
    case RoundState::kSealed:
      return "round sealed";
    case RoundState::kPublished:
      return "round published";
    case RoundState::kRetired:
      return "round deleted";
    case RoundState::kAborted:
      return "round aborted";
  }
  return "round";
}

// Returns whether an operator has to act; other errors concern the caller only.
bool IsServersFault(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDataLoss;
}

std::string Milliseconds(double seconds) { return absl::StrFormat("%.3f", seconds * 1e3); }

}  // namespace

void EventLog::OnRoundState(const RoundSnapshot& round) {
  if (!round.failure.empty()) {
    log_.Warning("round failed", {{"round", QualifiedName(round.tenant, round.name)},
                                  {"state", std::string(RoundStateName(round.state))},
                                  {"contributors", absl::StrCat(round.contributors)}});
  }
  log_.Info(EventOf(round.state), {{"round", QualifiedName(round.tenant, round.name)},
                                   {"contributors", absl::StrCat(round.contributors)},
                                   {"bytes", absl::StrCat(round.bytes_received)}});
}

void EventLog::OnRoundStalled(const RoundSnapshot& round, const absl::Status& why) {
  log_.Warning("round waits", {{"round", QualifiedName(round.tenant, round.name)},
                               {"state", std::string(RoundStateName(round.state))},
                               {"reason", ErrorReason(why)}});
}

void EventLog::OnSubmission(const SubmissionReport& report) {
  if (report.status.ok()) return;
  log_.Debug("update refused", {{"round", report.header.round},
                                {"contributor", report.header.contributor},
                                {"reason", ErrorReason(report.status)}});
}

void EventLog::OnVerification(const VerificationReport& report) {
  const std::string round = QualifiedName(report.round.tenant, report.round.name);
  const std::string ms = Milliseconds(report.seconds);
  const std::string reason = ErrorReason(report.outcome);
  if (report.outcome.ok()) {
    log_.Info("round verified", {{"round", round}, {"ms", ms}});
  } else if (reason == kResultMismatch) {
    log_.Error("the back end computes wrong results; do not trust unverified results",
               {{"round", round}, {"reason", reason}, {"ms", ms}});
  } else {
    log_.Warning("round not verified", {{"round", round},
                                        {"code", absl::StatusCodeToString(report.outcome.code())},
                                        {"reason", reason},
                                        {"ms", ms}});
  }
}

void EventLog::OnCallEnded(const CallMethod& method, const CallReport& report) {
  const bool fault = IsServersFault(report.code);
  if (!fault && log_.level() != LogLevel::kDebug) return;
  const std::initializer_list<LogField> fields = {
      {"method", std::string(method.path)},
      {"code", absl::StatusCodeToString(report.code)},
      {"reason", report.reason},
      {"ms", Milliseconds(report.seconds)},
      {"bytes_in", absl::StrCat(report.bytes_in)},
      {"bytes_out", absl::StrCat(report.bytes_out)},
      {"request_id", report.ids.request_id},
      {"trace_id", report.ids.trace_id},
      {"parent_id", report.ids.parent_id},
  };
  fault ? log_.Warning("call failed", fields) : log_.Debug("call", fields);
}

}  // namespace sparseagg
