// A stateless reduction: the same checks and reducers as a round, without a name, a store or a
// second thread.
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_REDUCTION_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_REDUCTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "service/engine/engine.h"
#include "service/engine/ingest/tensor_reducers.h"
#include "service/engine/memory/admission.h"

namespace sparseagg {

// What a reduction uses. All of it must outlive the reduction and its uploads.
struct ReductionServices {
  const EngineOptions& options;
  Backend& backend;
  const UpdateStore& store;  // says which durabilities there are
  Admission& staging;
  Admission& aggregation;
  std::shared_ptr<const void> budgets;  // owns both; the result shares it
  TensorReducers::Folding folding = TensorReducers::Folding::kInBatches;
  bool has_digests = true;  // the manifest has the digests of updates and result
};

// Returns a thread-safe reduction. It does not recognise resent updates: every added update counts.
// Errors are those of NormaliseRoundSpec() and TensorReducers::Make(). The durability of `spec` is
// ignored, because nothing is stored.
absl::StatusOr<std::unique_ptr<StatelessReduction>> MakeReduction(
    const RoundSpec& spec, const ReductionServices& services);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_REDUCTION_H_
