// The events that the engine reports for metrics and logs, after they have happened. The engine
// itself knows neither. An observer is called from any thread, without locks held, and must be
// fast: an update is counted in microseconds.
#ifndef SPARSEAGG_SERVICE_ENGINE_OBSERVER_H_
#define SPARSEAGG_SERVICE_ENGINE_OBSERVER_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace sparseagg {

struct RoundSnapshot;
struct UpdateHeader;

// One submission of an update.
struct SubmissionReport {
  const UpdateHeader& header;
  const absl::Status& status;  // OK: the update has a receipt
  bool duplicate = false;      // the receipt is that of an earlier submission
  uint64_t payload_bytes = 0;
  uint64_t nnz = 0;
  double seconds = 0;  // until the receipt
};

// Reductions of one tensor since its last report.
struct ReductionReport {
  std::string_view backend;
  std::string_view plan;
  double seconds = 0;
  double predicted_seconds = 0;
};

// The error reason for a result that differs from the sum of its updates.
inline constexpr std::string_view kResultMismatch = "RESULT_MISMATCH";

// The comparison of a result with what the reference back end computes from the same updates.
struct VerificationReport {
  const RoundSnapshot& round;
  // OK: every bit is equal. RESULT_MISMATCH: the round failed. Any other error: the result could
  // not be computed again and is published unverified.
  const absl::Status& outcome;
  double seconds = 0;
};

// Thread-safe. The default implementation ignores every event.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  // A round entered a new state: OPEN when created, RETIRED when deleted.
  virtual void OnRoundState(const RoundSnapshot& /*round*/) {}
  // The round is stalled, because the disk has no room for its result or for its end, and only the
  // operator can help. Called at once, then every minute while the stall lasts.
  virtual void OnRoundStalled(const RoundSnapshot& /*round*/, const absl::Status& /*why*/) {}
  virtual void OnSubmission(const SubmissionReport& /*report*/) {}
  virtual void OnReduction(const ReductionReport& /*report*/) {}
  // A round that EngineOptions::verify_share selected was verified.
  virtual void OnVerification(const VerificationReport& /*report*/) {}
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_OBSERVER_H_
