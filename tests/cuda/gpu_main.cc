// main() of tests that need a GPU: without one they are skipped, visibly, or fail when
// SPARSEAGG_REQUIRE_GPU is 1. And their AllBackends(): the GPU's, and the reference it is held to.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "cuda/cuda_backend.h"
#include "cuda/probe.h"
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

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto gpus = sparseagg::ProbeGpus();
  if (gpus.ok()) return RUN_ALL_TESTS();
  const char* required = std::getenv("SPARSEAGG_REQUIRE_GPU");
  const bool fail = required != nullptr && std::string(required) == "1";
  std::printf("%s %s\n", fail ? "[  FAILED  ]" : "[  SKIPPED ]",
              std::string(gpus.status().message()).c_str());
  return fail ? 1 : 0;
}
