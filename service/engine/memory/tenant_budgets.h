// The engine's memory budgets, and for each tenant its limits, its memory budgets and a counter for
// round names.
#ifndef SPARSEAGG_SERVICE_ENGINE_MEMORY_TENANT_BUDGETS_H_
#define SPARSEAGG_SERVICE_ENGINE_MEMORY_TENANT_BUDGETS_H_

#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "service/engine/limits.h"
#include "service/engine/memory/admission.h"

namespace sparseagg {

// Thread-safe.
struct TenantBudgets {
  TenantBudgets(const TenantLimits& its_limits, Admission& all_staging, Admission& all_aggregation)
      : limits(its_limits),
        bytes(
            its_limits.bytes_max == 0 ? std::numeric_limits<uint64_t>::max() : its_limits.bytes_max,
            kTenantBudget),
        staging(bytes, all_staging),
        aggregation(bytes, all_aggregation) {}

  const TenantLimits limits;
  Admission bytes;        // bounds staging and aggregation together
  Admission staging;      // combines `bytes` with the engine's staging budget
  Admission aggregation;  // combines `bytes` with the engine's aggregation budget
  std::atomic<uint64_t> rounds_named = 0;
};

// Thread-safe.
class TenantTable {
 public:
  using LimitsOf = std::function<TenantLimits(std::string_view tenant)>;

  TenantTable(LimitsOf limits_of, uint64_t staging_bytes_max, uint64_t aggregation_bytes_max)
      : limits_of_(std::move(limits_of)),
        staging_(staging_bytes_max),
        aggregation_(aggregation_bytes_max, kAggregationBudget) {}

  // The budgets of all tenants together.
  const Admission& staging() const { return staging_; }
  const Admission& aggregation() const { return aggregation_; }

  // Returns the budgets of a tenant, which live as long as the table. The limits of a tenant are
  // read at its first call.
  TenantBudgets& Of(std::string_view tenant) {
    const std::lock_guard lock(mutex_);
    auto found = by_tenant_.find(tenant);
    if (found == by_tenant_.end()) {
      auto budgets = std::make_unique<TenantBudgets>(limits_of_(tenant), staging_, aggregation_);
      found = by_tenant_.emplace(tenant, std::move(budgets)).first;
    }
    return *found->second;
  }

 private:
  const LimitsOf limits_of_;
  Admission staging_;
  Admission aggregation_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<TenantBudgets>, std::less<>> by_tenant_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_MEMORY_TENANT_BUDGETS_H_
