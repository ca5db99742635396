// One of several GPUs fails, hangs or has no memory left: no bit changes, and the others go on. The
// GPUs are fake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tests/cuda/devices/group.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

using testing::Difference;
using testing::MakeSpec;
using testing::TheFakeGpu;

constexpr int kDevices = 4;

gpu::Tuning SmallBatches() {
  gpu::Tuning tuning{.calibrate = false, .upload_bytes = 1, .batch_bytes = 1};
  tuning.watch_period = std::chrono::milliseconds(1);
  return tuning;
}

class DeviceFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::ResetFakeGpu(); }
  void TearDown() override {
    EXPECT_EQ(testing::Misuses(), "");
    testing::ResetFakeGpu();
  }

  std::unique_ptr<Backend> MakeGroup(const gpu::Tuning& tuning = SmallBatches(),
                                     uint64_t kept_bytes_min = uint64_t{1} << 30) {
    losses_.clear();
    testing::ResetFakeGpu();
    return testing::MakeGuardedGpuGroup(
        kDevices, tuning,
        {.on_loss = [this](const absl::Status& fault) { losses_.emplace_back(fault.message()); },
         .kept_bytes_min = kept_bytes_min});
  }
  static uint64_t CallsOf(int device) { return TheFakeGpu(device).calls; }
  absl::StatusOr<Aggregate> Reduce(Backend& backend) {
    return testing::Reduce(backend, spec_, updates_);
  }
  // Device `device` is the only one that is lost, if it is.
  void ExpectOthersHealthy(const Backend& backend, int device) {
    size_t lost = 0;
    for (const DeviceStats& stats : backend.device_stats()) {
      EXPECT_TRUE(!stats.lost || stats.device == std::to_string(device)) << stats.device;
      lost += stats.lost ? 1 : 0;
    }
    EXPECT_EQ(losses_.size(), lost);
  }

  const std::unique_ptr<Backend> reference_ = *MakeReferenceBackend({});
  const ReduceSpec spec_ = MakeSpec("mean_of_contributors", ValueType::kF32, 1000, 3);
  const std::vector<testing::Update> updates_ =
      testing::MakeUpdates(spec_,
                           {.nnz = 400,
                            .contributors = 12,
                            .distribution = testing::Distribution::kZipf,
                            .values = testing::Values::kHostile},
                           5);
  const absl::StatusOr<Aggregate> expected_ = testing::Reduce(*reference_, spec_, updates_);
  std::vector<std::string> losses_;
};

// From the first upload to the peer copies and the result.
TEST_F(DeviceFaultsTest, ALossOfAnyOfFourAtAnyCallChangesNoBit) {
  for (const uint64_t kept_bytes_min : {uint64_t{1} << 30, uint64_t{12'000}}) {
    for (int device = 0; device < kDevices; ++device) {
      uint64_t calls = 0;
      {
        const auto backend = MakeGroup(SmallBatches(), kept_bytes_min);
        const uint64_t before = CallsOf(device);
        EXPECT_EQ(Difference(expected_, Reduce(*backend)), "");
        EXPECT_TRUE(losses_.empty());
        calls = CallsOf(device) - before;
      }
      ASSERT_GT(calls, 50u);
      int lost = 0;
      for (uint64_t call = 1; call <= calls; call += 1 + calls / 60) {
        const auto backend = MakeGroup(SmallBatches(), kept_bytes_min);
        TheFakeGpu(device).fails_at_call = CallsOf(device) + call;
        ASSERT_EQ(Difference(expected_, Reduce(*backend)), "")
            << "device " << device << ", call " << call << " of " << calls;
        ExpectOthersHealthy(*backend, device);
        lost += losses_.empty() ? 0 : 1;
      }
      EXPECT_GT(lost, 20) << device;
    }
  }
}

TEST_F(DeviceFaultsTest, ALostDeviceIsNamedAndLeftOut) {
  const auto backend = MakeGroup();
  TheFakeGpu(2).fails_at_call = CallsOf(2) + 30;
  EXPECT_EQ(Difference(expected_, Reduce(*backend)), "");
  ASSERT_EQ(losses_.size(), 1u);
  EXPECT_THAT(losses_[0], ::testing::HasSubstr("GPU 2 failed and is not used any more"));
  EXPECT_EQ(ErrorReason(backend->health()), "GPU_LOST");
  const uint64_t calls = CallsOf(2);
  std::vector<DeviceStats> before = backend->device_stats();
  EXPECT_EQ(Difference(expected_, Reduce(*backend)), "");
  EXPECT_LE(CallsOf(2), calls) << "nobody asks it";
  const std::vector<DeviceStats> after = backend->device_stats();
  for (const size_t device : {size_t{0}, size_t{1}, size_t{3}}) {
    EXPECT_GT(after[device].uploaded_bytes, before[device].uploaded_bytes) << device;
  }
  EXPECT_EQ(losses_.size(), 1u) << "told once";
}

TEST_F(DeviceFaultsTest, DevicesMayBeLostOneAfterAnother) {
  const auto backend = MakeGroup();
  const auto aggregator = testing::NewAggregator(*backend, spec_);
  for (size_t u = 0; u < updates_.size(); ++u) {
    if (u % 3 == 1) TheFakeGpu(static_cast<int>(u / 3)).fails_at_call = 1;  // at last all of them
    ASSERT_TRUE(
        aggregator->Accumulate(testing::StageCopy(*aggregator, updates_[u]), updates_[u].weight)
            .ok());
  }
  EXPECT_EQ(Difference(expected_, std::move(*aggregator).Report()), "");
  EXPECT_EQ(losses_.size(), static_cast<size_t>(kDevices));
  EXPECT_EQ(Difference(expected_, Reduce(*backend)), "") << "on the second back end alone";
}

TEST_F(DeviceFaultsTest, ADeviceThatHangsCostsTheOthersNothing) {
  for (uint64_t call = 1; call < 60; call += 20) {
    {
      gpu::Tuning tuning = SmallBatches();
      tuning.clock = [now = std::make_shared<std::atomic<int>>(0)] {
        return std::chrono::steady_clock::time_point(std::chrono::seconds(++*now));
      };
      // Much longer than a wait takes that ends: each look at the clock is a second.
      tuning.wait_max = std::chrono::seconds(2000);
      const auto backend = MakeGroup(tuning);
      TheFakeGpu(1).hangs_at_call = CallsOf(1) + call;
      ASSERT_EQ(Difference(expected_, Reduce(*backend)), "") << call;
      ExpectOthersHealthy(*backend, 1);
    }
    testing::EndHang();
  }
}

TEST_F(DeviceFaultsTest, MemoryThatRunsOutOnOneDeviceIsNoLoss) {
  for (int device = 0; device < kDevices; ++device) {
    uint64_t peak = 0;
    {
      const auto backend = MakeGroup();
      EXPECT_EQ(Difference(expected_, Reduce(*backend)), "");
      peak = TheFakeGpu(device).memory_peak;
    }
    for (uint64_t memory = peak; memory > 64; memory -= memory / 5 + 1) {
      const auto backend = MakeGroup();
      TheFakeGpu(device).memory_bytes = memory;
      ASSERT_EQ(Difference(expected_, Reduce(*backend)), "") << device << " with " << memory;
      EXPECT_TRUE(backend->health().ok());
      EXPECT_TRUE(losses_.empty());
    }
  }
}

TEST_F(DeviceFaultsTest, WithoutAFallbackALossIsAnError) {
  const auto backend = testing::MakeGpuGroup(kDevices, SmallBatches());
  TheFakeGpu(3).fails_at_call = CallsOf(3) + 30;
  EXPECT_EQ(ErrorReason(Reduce(*backend).status()), "GPU_LOST");
}

}  // namespace
}  // namespace sparseagg
