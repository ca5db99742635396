// AllBackends() of a server whose GPUs are fake, and of what takes over when one is lost. The
// environment may say how large a batch is, and which device fails at which call after the start
// ("2:40").
#include <cstdlib>
#include <string>

#include "cuda/cuda_backend.h"
#include "sparse/reference_backend.h"
#include "tests/cuda/emulator/runtime.h"

namespace sparseagg {
namespace {

gpu::Tuning TuningOfEnvironment() {
  gpu::Tuning tuning{.calibrate = false, .upload_bytes = 1};
  const char* bytes = std::getenv("SPARSEAGG_EMULATED_BATCH_BYTES");
  if (bytes != nullptr) tuning.batch_bytes = std::stoull(bytes);
  return tuning;
}

absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeEach(const BackendOptions& options) {
  auto backends = MakeCudaBackends(options, TuningOfEnvironment());
  const char* loss = std::getenv("SPARSEAGG_EMULATED_LOSS");
  if (loss != nullptr && backends.ok()) {
    const std::string text = loss;
    testing::FakeGpu& gpu = testing::TheFakeGpu(std::stoi(text));
    gpu.fails_at_call = gpu.calls + std::stoull(text.substr(text.find(':') + 1));
  }
  return backends;
}

absl::StatusOr<std::unique_ptr<Backend>> Make(const BackendOptions& options) {
  return MakeCudaBackend(options, TuningOfEnvironment());
}

}  // namespace

std::span<const BackendFactory> AllBackends() {
  static constexpr BackendFactory kBackends[] = {{"cuda", &Make, &MakeEach},
                                                 {"cpu", &MakeReferenceBackend}};
  return kBackends;
}

}  // namespace sparseagg
