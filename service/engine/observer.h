// What the engine tells those who count and log: facts, when they have happened. The engine knows
// neither metrics nor a log. An observer is called from any thread, without locks held, and must be
// quick: updates are counted in microseconds.
#ifndef SPARSEAGG_SERVICE_ENGINE_OBSERVER_H_
#define SPARSEAGG_SERVICE_ENGINE_OBSERVER_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace sparseagg {

struct RoundSnapshot;
struct UpdateHeader;

// One attempt to have an update counted.
struct SubmissionReport {
  const UpdateHeader& header;
  const absl::Status& status;  // OK: it has a receipt
  bool duplicate = false;      // its first one
  uint64_t payload_bytes = 0;
  uint64_t nnz = 0;
  double seconds = 0;  // until the receipt
};

// Reductions of one tensor that were done since the last report of it.
struct ReductionReport {
  std::string_view backend;
  std::string_view plan;
  double seconds = 0;
  double predicted_seconds = 0;
};

// The reason of a result that is not the sum of its updates.
inline constexpr std::string_view kResultMismatch = "RESULT_MISMATCH";

// One published result compared with what the reference back end makes of the same updates.
struct VerificationReport {
  const RoundSnapshot& round;
  // OK: every bit is the same. RESULT_MISMATCH: the round failed. Another: it could not be computed
  // again, and is published as it is.
  const absl::Status& outcome;
  double seconds = 0;
};

// Thread-safe. This one ignores everything.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  // A round is in a new state: OPEN when created, RETIRED when deleted.
  virtual void OnRoundState(const RoundSnapshot& /*round*/) {}
  // The round cannot go on yet, nor can anybody help but the operator: its result, or that it is
  // over, has no room on the disk. At once, then every minute that it lasts.
  virtual void OnRoundWaits(const RoundSnapshot& /*round*/, const absl::Status& /*why*/) {}
  virtual void OnSubmission(const SubmissionReport& /*report*/) {}
  virtual void OnReduction(const ReductionReport& /*report*/) {}
  // Of rounds that EngineOptions::verify_share chooses.
  virtual void OnVerification(const VerificationReport& /*report*/) {}
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_OBSERVER_H_
