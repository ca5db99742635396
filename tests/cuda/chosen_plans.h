// The plans that a run of the conformance and plans tests is about. bench/gpu/gpu_check runs each
// plan in a process of its own, so that one that loses the device costs no other plan its tests.
#ifndef SPARSEAGG_TESTS_CUDA_CHOSEN_PLANS_H_
#define SPARSEAGG_TESTS_CUDA_CHOSEN_PLANS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "sparse/backend.h"

namespace sparseagg::testing {

// `backend` with the plans of `list` only, which are separated by commas, in that order; the
// planner chooses among them as well. An empty list means all plans. NOT_FOUND names a plan that
// the back end does not have.
absl::StatusOr<std::unique_ptr<Backend>> WithPlans(std::unique_ptr<Backend> backend,
                                                   const std::string& list);

// The same with the list in the environment variable SPARSEAGG_TEST_PLANS.
absl::StatusOr<std::unique_ptr<Backend>> WithChosenPlans(
    absl::StatusOr<std::unique_ptr<Backend>> backend);

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_CUDA_CHOSEN_PLANS_H_
