#include "service/engine/round/local_reductions.h"

#include <string_view>

#include "service/engine/round/reduction.h"

namespace sparseagg {
namespace {

Limits LimitsOfAProcess() {
  Limits limits = WithoutLimits();
  limits.round_tensors_max = kRoundTensorsMax;
  return limits;
}

}  // namespace

LocalReductions::LocalReductions(Backend& backend)
    : options_{.limits = LimitsOfAProcess()},
      backend_(backend),
      store_(MakeMemoryStore()),
      budgets_(std::make_shared<TenantTable>([](std::string_view) { return TenantLimits{}; },
                                             backend.info().memory_bytes,
                                             backend.info().memory_bytes)) {}

absl::StatusOr<std::unique_ptr<StatelessReduction>> LocalReductions::New(
    const std::vector<TensorSpec>& tensors, TensorReducers::Folding folding) {
  TenantBudgets& budgets = budgets_->Of(kDefaultTenant);
  return MakeReduction({.tensors = tensors}, {.options = options_,
                                              .backend = backend_,
                                              .store = *store_,
                                              .staging = budgets.staging,
                                              .aggregation = budgets.aggregation,
                                              .budgets = budgets_,
                                              .folding = folding,
                                              .has_digests = false});
}

}  // namespace sparseagg
