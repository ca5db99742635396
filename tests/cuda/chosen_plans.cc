#include "tests/cuda/chosen_plans.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sparseagg::testing {
namespace {

class BackendOfPlans : public Backend {
 public:
  BackendOfPlans(std::unique_ptr<Backend> backend, std::vector<std::string> plans)
      : backend_(std::move(backend)), info_(backend_->info()) {
    info_.plans = std::move(plans);
  }

  const BackendInfo& info() const override { return info_; }
  absl::Status health() const override { return backend_->health(); }
  absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) override {
    return backend_->NewAggregator(plan);
  }

 private:
  const std::unique_ptr<Backend> backend_;
  BackendInfo info_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> WithPlans(std::unique_ptr<Backend> backend,
                                                   const std::string& list) {
  if (list.empty()) return backend;
  const std::vector<std::string> plans = absl::StrSplit(list, ',');
  const std::vector<std::string>& known = backend->info().plans;
  for (const std::string& plan : plans) {
    if (std::find(known.begin(), known.end(), plan) == known.end()) {
      return absl::NotFoundError(absl::StrCat("there is no plan \"", plan, "\" here"));
    }
  }
  return std::make_unique<BackendOfPlans>(std::move(backend), plans);
}

absl::StatusOr<std::unique_ptr<Backend>> WithChosenPlans(
    absl::StatusOr<std::unique_ptr<Backend>> backend) {
  if (!backend.ok()) return backend.status();
  const char* list = std::getenv("SPARSEAGG_TEST_PLANS");
  return WithPlans(*std::move(backend), list == nullptr ? "" : list);
}

}  // namespace sparseagg::testing
