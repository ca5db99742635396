// AllBackends() for the conformance suite: two to four GPUs and batches so small that every update
// goes to another one.
#include "tests/cuda/devices/group.h"

namespace sparseagg {
namespace {

template <int kDevices>
absl::StatusOr<std::unique_ptr<Backend>> Make(const BackendOptions&) {
  return testing::MakeGpuGroup(kDevices, {.calibrate = false, .upload_bytes = 1, .batch_bytes = 1});
}

}  // namespace

std::span<const BackendFactory> AllBackends() {
  static constexpr BackendFactory kBackends[] = {
      {"two devices", &Make<2>},
      {"three devices", &Make<3>},
      {"four devices", &Make<4>},
      {"reference", &MakeReferenceBackend},
  };
  return kBackends;
}

}  // namespace sparseagg
