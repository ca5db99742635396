// The host+device headers of sparse/ give the same bits on a GPU as on the CPU. Skipped where there
// is no GPU; SPARSEAGG_REQUIRE_GPU=1 turns the skip into a failure.
#include "tests/cuda/device_numerics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "base/status.h"
#include "cuda/device/probe.h"

namespace sparseagg::testing {
namespace {

bool GpuRequired() {
  const char* value = std::getenv("SPARSEAGG_REQUIRE_GPU");
  return value != nullptr && std::string(value) == "1";
}

TEST(DeviceNumerics, TheProbeFindsAGpuOrSaysWhyNot) {
  const auto gpus = ProbeGpus();
  if (gpus.ok()) {
    EXPECT_FALSE(gpus->empty());
    EXPECT_GT((*gpus)[0].memory_bytes, 0u);
    return;
  }
  EXPECT_FALSE(GpuRequired()) << gpus.status();
  EXPECT_EQ(gpus.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorReason(gpus.status()), "NO_GPU");
}

TEST(DeviceNumerics, TheDeviceGivesTheBitsOfTheHost) {
  const auto gpus = ProbeGpus();
  if (!gpus.ok()) {
    ASSERT_FALSE(GpuRequired()) << gpus.status();
    GTEST_SKIP() << "no GPU: " << gpus.status().message();
  }
  std::mt19937_64 random(1);
  const auto finite = [&](int i) {
    for (;;) {
      const double value =
          i % 2 == 0 ? BitCast<double>(random())
                     : std::ldexp(random() % 1000003, static_cast<int>(random() % 90) - 60);
      if (std::isfinite(value)) return value;
    }
  };
  std::vector<double> a;
  std::vector<double> b;
  std::vector<float> weights;
  for (int i = 0; i < 1 << 20; ++i) {
    a.push_back(finite(i));
    b.push_back(i % 5 == 0 ? -a.back() * (1 + 0x1p-50) : finite(i / 2));
    if (!std::isfinite(b.back())) b.back() = 1;
    weights.push_back(static_cast<float>(random() % 100000) / 7);
  }
  std::string error;
  const std::vector<NumericsResult> device = ComputeOnDevice(a, b, weights, error);
  ASSERT_EQ(error, "");
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(device[i] == ComputeNumerics(a[i], b[i], weights[i]))
        << i << ": " << a[i] << " " << b[i];
  }
}

}  // namespace
}  // namespace sparseagg::testing
