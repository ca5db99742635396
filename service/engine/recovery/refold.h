// Rebuilds the accumulators of a round from the stored updates. Accumulators are never stored:
// under the numerics contract, rebuilding gives the same bits on every back end.
#ifndef SPARSEAGG_SERVICE_ENGINE_RECOVERY_REFOLD_H_
#define SPARSEAGG_SERVICE_ENGINE_RECOVERY_REFOLD_H_

#include <memory>
#include <string>
#include <vector>

#include "service/engine/ingest/tensor_reducers.h"
#include "service/engine/limits.h"
#include "service/engine/memory/admission.h"
#include "service/engine/partial/covered_updates.h"
#include "service/engine/types.h"

namespace sparseagg {

struct Refolded {
  std::unique_ptr<TensorReducers> reducers;
  std::vector<UpdateRecord> updates;  // in the order of acceptance
  CoveredUpdates covered;             // by those of them that are partial aggregates
  std::vector<TensorStatus> tensors;
  uint64_t bytes_received = 0;
};

// A stored update.
struct KeptUpdate {
  std::vector<EncodedHeader> headers;
  UpdateLayout layout;
  SplitPayload payload;  // refers to the bytes passed to ReadKeptUpdate()
};

// Reads what UpdateStore::ReadUpdates() passes. Returns DATA_LOSS (STORE_CORRUPT) if this is not
// the update that was accepted, and the errors of MakeUpdateLayout().
absl::StatusOr<KeptUpdate> ReadKeptUpdate(const UpdateRecord& record, std::string_view headers_text,
                                          std::string_view payload, const RoundSpec& spec,
                                          const Limits& limits);

// Reads a stored update that is a partial aggregate. Errors: those of ReadPartial().
absl::StatusOr<RoundPartial> ReadKeptPartial(const KeptUpdate& update, const RoundSpec& spec);

// Returns `spec` without forced plans, for use with any back end: a forced plan belongs to one back
// end. The bits of the result do not depend on the plan.
RoundSpec WithoutPlans(RoundSpec spec);

// Folds all stored updates of a round. Errors are those of ReadKeptUpdate() and of the back end.
// The memory is recorded in `aggregation` even beyond its limit, because acknowledged updates must
// be recovered whatever else is held. A forced plan that the back end does not have, or has no
// memory for, is ignored.
absl::StatusOr<Refolded> Refold(const UpdateStore& store, const std::string& round,
                                const RoundSpec& spec, const Limits& limits, Backend& backend,
                                Admission& aggregation);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_RECOVERY_REFOLD_H_
