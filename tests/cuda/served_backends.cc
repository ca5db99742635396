// AllBackends() of a server whose GPU is the fake one, and of what takes over when that is lost.
#include "cuda/cuda_backend.h"
#include "sparse/reference_backend.h"

namespace sparseagg {
namespace {

absl::StatusOr<std::unique_ptr<Backend>> Make(const BackendOptions& options) {
  return MakeCudaBackend(options, {.calibrate = false, .upload_bytes = 1});
}

}  // namespace

std::span<const BackendFactory> AllBackends() {
  static constexpr BackendFactory kBackends[] = {{"cuda", &Make}, {"cpu", &MakeReferenceBackend}};
  return kBackends;
}

}  // namespace sparseagg
