// The emulated runtime sees what the tests of several GPUs rely on.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "cuda/device/gpu.h"
#include "tests/cuda/devices/group.h"

namespace sparseagg {
namespace {

using testing::TheFakeMachine;

class MisuseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::ResetFakeGpu();
    TheFakeMachine().devices = 2;
    for (int device = 0; device < 2; ++device) {
      gpus_.push_back(
          std::make_unique<gpu::Gpu>(device, uint64_t{1} << 30, uint64_t{1} << 20, gpu::Tuning()));
    }
  }
  void TearDown() override {
    gpus_.clear();
    testing::ResetFakeGpu();
  }
  absl::Status On(int device, const std::function<void(gpu::Queue&)>& f) {
    gpu::Gpu& gpu = *gpus_[static_cast<size_t>(device)];
    return gpu.Run("t", [&] {
      f(gpu.context().queue);
      gpu.context().queue.Synchronize();
    });
  }

  std::vector<std::unique_ptr<gpu::Gpu>> gpus_;
};

TEST_F(MisuseTest, MemoryOfAnotherDeviceIsForPeerCopiesOnly) {
  gpu::DeviceArray<uint64_t> there;
  ASSERT_TRUE(On(1, [&](gpu::Queue& queue) {
                there = {queue, 4};
                queue.Fill(there.data(), 7, 4);
              }).ok());
  uint64_t value = 0;
  EXPECT_TRUE(On(0, [&](gpu::Queue& queue) {
                gpu::DeviceArray<uint64_t> here(queue, 4);
                queue.CopyFromDevice(here.data(), 1, there.data(), 4);
                value = queue.Read(here.data() + 3);
              }).ok());
  EXPECT_EQ(value, 0x0707070707070707u);
  EXPECT_EQ(testing::Misuses(), "");
  const absl::Status status = On(0, [&](gpu::Queue& queue) { queue.Fill(there.data(), 0, 4); });
  EXPECT_EQ(ErrorReason(status), "GPU_LOST");
  EXPECT_EQ(testing::Misuses(), "a memset uses memory of device 1");
  EXPECT_TRUE(gpus_[1]->health().ok());
}

TEST_F(MisuseTest, ACallForADeviceThatIsNotCurrentIsSeen) {
  EXPECT_FALSE(On(0, [&](gpu::Queue&) {
                 gpu::DeviceArray<uint64_t> there(gpus_[1]->context().queue, 4);
               }).ok());
  EXPECT_EQ(testing::Misuses(), "an allocation while device 0 is current");
}

}  // namespace
}  // namespace sparseagg
