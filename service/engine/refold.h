// The accumulators of a round, made again from the updates that the store has kept. They are never
// stored: under the numerics contract they have the same bits on every back end.
#ifndef SPARSEAGG_SERVICE_ENGINE_REFOLD_H_
#define SPARSEAGG_SERVICE_ENGINE_REFOLD_H_

#include <memory>
#include <string>
#include <vector>

#include "service/engine/admission.h"
#include "service/engine/engine.h"
#include "service/engine/tensor_reducers.h"

namespace sparseagg {

struct Refolded {
  std::unique_ptr<TensorReducers> reducers;
  std::vector<UpdateRecord> updates;  // in the order of acceptance
  std::vector<TensorStatus> tensors;
  uint64_t bytes_received = 0;
};

// DATA_LOSS (STORE_CORRUPT) for an update that is not the one that was accepted; errors of the
// limits and of `aggregation`, which the memory comes from.
absl::StatusOr<Refolded> Refold(const UpdateStore& store, const std::string& round,
                                const RoundSpec& spec, const Limits& limits, Backend& backend,
                                Admission& aggregation);

// The same round, for any back end: a plan that was forced is one of some back end.
RoundSpec WithoutPlans(RoundSpec spec);

// Computes a published round again and compares updates and result with `published`. DATA_LOSS
// (RESULT_MISMATCH) when a bit differs; errors as above. REQUIRES: the store has kept the updates.
absl::StatusOr<Verification> Verify(const UpdateStore& store, const std::string& round,
                                    const PublishedResult& published, Backend& backend,
                                    Admission& aggregation);

// The same of what the store has, on the reference back end; see Engine::VerifyRound().
absl::StatusOr<Verification> VerifyPublished(const UpdateStore& store, const std::string& round,
                                             const PublishedResult& result, Admission& aggregation);

// Compares the stored result with the manifest. DATA_LOSS (RESULT_MISMATCH).
absl::Status CheckResultDigest(const PublishedResult& published);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_REFOLD_H_
