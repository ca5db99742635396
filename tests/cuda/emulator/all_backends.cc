// AllBackends() for the conformance suite: the CUDA back end on the fake GPU, once as it is and
// once with batches so small that every update is a batch.
#include "cuda/cuda_backend.h"
#include "sparse/reference_backend.h"

namespace sparseagg {
namespace {

absl::StatusOr<std::unique_ptr<Backend>> MakeWithSmallBatches(const BackendOptions& options) {
  return MakeCudaBackend(options, {.upload_bytes = 1, .batch_bytes_min = 1});
}

}  // namespace

std::span<const BackendFactory> AllBackends() {
  static constexpr BackendFactory kBackends[] = {
      {"cuda", &MakeCudaBackend},
      {"cuda with small batches", &MakeWithSmallBatches},
      {"reference", &MakeReferenceBackend},
  };
  return kBackends;
}

}  // namespace sparseagg
