// Submits an update to a round: received -> checked (headers only) -> admitted -> staged (decoded,
// validated) -> stored -> counted -> receipt. The fold comes later. An error at any of these steps
// leaves the round unchanged, except for the count of refusals.
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_SUBMISSION_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_SUBMISSION_H_

#include <chrono>

#include "service/engine/ingest/update.h"
#include "service/engine/memory/admission.h"
#include "service/engine/observer.h"
#include "service/engine/round/round.h"

namespace sparseagg {

// Validates contributor, update_id and weight (INVALID_CONTRIBUTOR, INVALID_UPDATE_ID,
// INVALID_WEIGHT).
absl::Status CheckUpdateHeader(const UpdateHeader& header);
// As well, that the round takes updates of this contributor (CheckLeaf()).
absl::Status CheckUpdateHeader(const Round& round, const UpdateHeader& header, bool is_partial);

// Counts an update, or returns the receipt of a resend. `staging` holds the memory for the decoded
// entries; if it is empty, the memory is reserved from `admission`. The fold takes `staging` over;
// on an error it stays with the caller. Thread-safe.
absl::StatusOr<Receipt> SubmitUpdate(Round& round, const UpdateHeader& header,
                                     const UpdateBody& body, const Limits& limits,
                                     Admission& admission, Reservation& staging);

// Describes a submission that took `time`. The report refers to the arguments.
SubmissionReport ReportOf(const UpdateHeader& header, const UpdateBody& body,
                          const absl::StatusOr<Receipt>& receipt,
                          std::chrono::duration<double> time);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_SUBMISSION_H_
