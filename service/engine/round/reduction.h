// The stateless operator: the same checks and reducers as a round, with no name, no store and no
// second thread.
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_REDUCTION_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_REDUCTION_H_

#include <memory>

#include "service/engine/engine.h"
#include "service/engine/ingest/tensor_reducers.h"
#include "service/engine/memory/admission.h"

namespace sparseagg {

// Thread-safe. Updates are not recognised as resent: each one that was added counts. `options` and
// `admission` must outlive it and its uploads; its result shares `budgets`, which own the memory of
// all.
std::unique_ptr<Reduction> MakeReduction(std::unique_ptr<TensorReducers> reducers,
                                         const EngineOptions& options, Admission& admission,
                                         std::shared_ptr<const void> budgets);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_REDUCTION_H_
