// What must hold of a round's specification as a whole; each tensor alone is checked by
// MakeReduceSpec().
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_SPEC_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_SPEC_H_

#include "service/engine/engine.h"

namespace sparseagg {

// `spec` with its defaults filled in (operator "sum", the durability). INVALID_ARGUMENT: no tensor
// or more than the limit (INVALID_SPEC), two tensors of one name (DUPLICATE_TENSOR), a durability
// that the store does not offer (DURABILITY_UNSUPPORTED), a policy that contradicts itself
// (INVALID_POLICY).
absl::StatusOr<RoundSpec> NormaliseRoundSpec(RoundSpec spec, const EngineOptions& options,
                                             const UpdateStore& store);

// Whether a repeated CreateRound asks for the same. REQUIRES: both normalised.
bool SameSpec(const RoundSpec& a, const RoundSpec& b);

// Type and shape of the result of `spec`: its own, but for "count" u64 with one value for each row
// ({1} when dense).
TensorSpec ResultSpec(const TensorSpec& spec);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_SPEC_H_
