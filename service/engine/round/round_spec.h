// Validates a round's specification as a whole; MakeReduceSpec() validates each tensor.
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_ROUND_SPEC_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_ROUND_SPEC_H_

#include "service/engine/engine.h"

namespace sparseagg {

// Returns `spec` with its defaults filled in (operator "sum", the durability). Returns
// INVALID_ARGUMENT for no tensor or more than the limit (INVALID_SPEC), two tensors with one name
// (DUPLICATE_TENSOR), a durability that the store does not support (DURABILITY_UNSUPPORTED), and a
// policy that contradicts itself (INVALID_POLICY).
absl::StatusOr<RoundSpec> NormaliseRoundSpec(RoundSpec spec, const EngineOptions& options,
                                             const UpdateStore& store);

// Returns whether two CreateRound requests ask for the same round. REQUIRES: both are normalised.
bool SameSpec(const RoundSpec& a, const RoundSpec& b);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_ROUND_SPEC_H_
