// The accumulators of a round, made again from the updates that the store has kept. They are never
// stored: under the numerics contract they have the same bits on every back end.
#ifndef SPARSEAGG_SERVICE_ENGINE_RECOVERY_REFOLD_H_
#define SPARSEAGG_SERVICE_ENGINE_RECOVERY_REFOLD_H_

#include <memory>
#include <string>
#include <vector>

#include "service/engine/engine.h"
#include "service/engine/ingest/tensor_reducers.h"
#include "service/engine/memory/admission.h"

namespace sparseagg {

struct Refolded {
  std::unique_ptr<TensorReducers> reducers;
  std::vector<UpdateRecord> updates;  // in the order of acceptance
  std::vector<TensorStatus> tensors;
  uint64_t bytes_received = 0;
};

// An update as the store has kept it.
struct KeptUpdate {
  std::vector<EncodedHeader> headers;
  UpdatePlan plan;
  CutPayload payload;  // refers to the bytes that were read
};

// From what UpdateStore::ReadUpdates() gives. DATA_LOSS (STORE_CORRUPT) for an update that is not
// the one that was accepted; errors of the limits.
absl::StatusOr<KeptUpdate> ReadKeptUpdate(const UpdateRecord& record, std::string_view headers_text,
                                          std::string_view payload, const RoundSpec& spec,
                                          const Limits& limits);

// The same round for any back end: a plan that was forced is one of some back end. The bits do not
// depend on it.
RoundSpec WithoutPlans(RoundSpec spec);

// Errors as above, and those of the back end. The memory is counted in `aggregation`, which is not
// asked: updates that were acknowledged are taken up, whatever else is there. A forced plan that
// the back end does not have, or has no memory for, is left out.
absl::StatusOr<Refolded> Refold(const UpdateStore& store, const std::string& round,
                                const RoundSpec& spec, const Limits& limits, Backend& backend,
                                Admission& aggregation);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_RECOVERY_REFOLD_H_
