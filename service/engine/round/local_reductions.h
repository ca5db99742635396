// Stateless reductions in the process of a program that embeds the core, such as the Python
// package: the checks and the reducers of the server, without its rounds, limits, digests and
// threads.
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_LOCAL_REDUCTIONS_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_LOCAL_REDUCTIONS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "service/engine/engine.h"
#include "service/engine/ingest/tensor_reducers.h"
#include "service/engine/memory/tenant_budgets.h"

namespace sparseagg {

// Thread-safe. Must outlive its reductions, but not their results.
class LocalReductions {
 public:
  // The entries, accumulators and results of all reductions together take at most the memory of
  // `backend`, which must outlive this object. Beyond it, calls return RESOURCE_EXHAUSTED.
  explicit LocalReductions(Backend& backend);

  // Returns a reduction as Engine::NewReduction() does, with the same errors. The manifest of its
  // result has no digests, because nobody compares them with receipts. With kAtOnce, every update
  // is kept until the result is requested, which is fastest where there is memory.
  absl::StatusOr<std::unique_ptr<StatelessReduction>> New(const std::vector<TensorSpec>& tensors,
                                                          TensorReducers::Folding folding);

 private:
  const EngineOptions options_;
  Backend& backend_;
  const std::unique_ptr<const UpdateStore> store_;
  const std::shared_ptr<TenantTable> budgets_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_LOCAL_REDUCTIONS_H_
