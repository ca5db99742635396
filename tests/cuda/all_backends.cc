// AllBackends() for the conformance suite, on a GPU or on the fake one: the CUDA back end, once as
// it is and once with batches so small that every update is a batch, and what it is held to.
#include "cuda/cuda_backend.h"
#include "sparse/reference_backend.h"
#include "tests/cuda/chosen_plans.h"

namespace sparseagg {
namespace {

// Not measured a thousand times: rates change no bit.
absl::StatusOr<std::unique_ptr<Backend>> Make(const BackendOptions& options) {
  return testing::WithChosenPlans(MakeCudaBackend(options, {.calibrate = false}));
}
absl::StatusOr<std::unique_ptr<Backend>> MakeWithSmallBatches(const BackendOptions& options) {
  return testing::WithChosenPlans(
      MakeCudaBackend(options, {.calibrate = false, .upload_bytes = 1, .batch_bytes = 2048}));
}

}  // namespace

std::span<const BackendFactory> AllBackends() {
  static constexpr BackendFactory kBackends[] = {
      {"cuda", &Make},
      {"cuda with small batches", &MakeWithSmallBatches},
      {"reference", &MakeReferenceBackend},
  };
  return kBackends;
}

}  // namespace sparseagg
