// A stateless reduction: the same checks and reducers as a round, without a name, a store or a
// second thread.
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_REDUCTION_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_REDUCTION_H_

#include <memory>

#include "service/engine/engine.h"
#include "service/engine/ingest/tensor_reducers.h"
#include "service/engine/memory/admission.h"

namespace sparseagg {

// Returns a thread-safe reduction. It does not recognise resent updates: every added update counts.
// `options` and `admission` must outlive the reduction and its uploads. Its result shares ownership
// of `budgets`, from which its memory was reserved.
std::unique_ptr<StatelessReduction> MakeReduction(std::unique_ptr<TensorReducers> reducers,
                                                  const EngineOptions& options,
                                                  Admission& admission,
                                                  std::shared_ptr<const void> budgets);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_REDUCTION_H_
