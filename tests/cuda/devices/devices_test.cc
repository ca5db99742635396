// One tensor on several GPUs: the bits, where updates go, and how the partial states meet. The GPUs
// are fake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sparse/ops/all.h"
#include "sparse/validate.h"
#include "tests/cuda/devices/group.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

using testing::Difference;
using testing::MakeSpec;
using testing::TheFakeGpu;
using testing::TheFakeMachine;

const gpu::Tuning kUpdateIsABatch{.calibrate = false, .upload_bytes = 1, .batch_bytes = 1};

class DevicesTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::ResetFakeGpu(); }
  void TearDown() override {
    EXPECT_EQ(testing::Misuses(), "");
    testing::ResetFakeGpu();
  }

  // Those that are valid.
  static std::vector<testing::Update> Updates(const ReduceSpec& spec, uint64_t seed) {
    auto updates = testing::MakeUpdates(spec,
                                        {.nnz = 200,
                                         .contributors = 12,
                                         .distribution = testing::Distribution::kZipf,
                                         .values = testing::Values::kHostile},
                                        seed);
    std::erase_if(updates, [&](const testing::Update& update) {
      const CooView entries{spec.layout, update.rows.size(), update.rows.data(),
                            update.values.data()};
      return !ValidateUpdate(spec, entries, update.weight).ok();
    });
    return updates;
  }
  absl::StatusOr<Aggregate> Expected(const ReduceSpec& spec,
                                     const std::vector<testing::Update>& updates) {
    return testing::Reduce(*reference_, spec, updates);
  }

  const std::unique_ptr<Backend> reference_ = *MakeReferenceBackend({});
  const ReduceSpec spec_ = MakeSpec("mean_of_contributors", ValueType::kF32, 1000, 3);
};

class CutsTest : public DevicesTest,
                 public ::testing::WithParamInterface<std::tuple<std::string_view, ValueType>> {};

// Batches of random sizes, updates in random order, a part of them as a partial aggregate, and the
// state asked for in between.
TEST_P(CutsTest, AnyCutOverOneToEightDevicesGivesTheBytesOfTheReference) {
  const auto [op, type] = GetParam();
  for (const int devices : {1, 2, 3, 4, 8}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(absl::StrCat(devices, " devices, seed ", seed));
      std::mt19937_64 random(seed * 10 + static_cast<uint64_t>(devices));
      ReduceSpec spec =
          MakeSpec(std::string(op), type, 1000, static_cast<uint32_t>(1 + random() % 3));
      spec.integer_overflow = IntegerOverflow::kModular;  // hostile integers overflow
      auto updates = Updates(spec, seed);
      ASSERT_GT(updates.size(), 3u);
      const auto expected = Expected(spec, updates);
      std::shuffle(updates.begin(), updates.end(), random);
      const auto backend = testing::MakeGpuGroup(
          devices, {.calibrate = false, .upload_bytes = 1, .batch_bytes = 1 + random() % 10'000});
      const auto aggregator = testing::NewAggregator(*backend, spec);
      const auto part = testing::NewAggregator(*reference_, spec);
      const size_t parts = random() % 4;
      const size_t looks_at = random() % updates.size();
      absl::Status status;
      for (size_t u = 0; u < updates.size(); ++u) {
        Aggregator& to = u < parts ? *part : *aggregator;
        status.Update(to.Accumulate(testing::StageCopy(to, updates[u]), updates[u].weight));
        if (u + 1 == parts) status.Update(aggregator->Merge(part->Snapshot().value()));
        if (u == looks_at) status.Update(aggregator->Snapshot().status());
      }
      EXPECT_EQ(Difference(expected, status.ok() ? std::move(*aggregator).Report()
                                                 : absl::StatusOr<Aggregate>(status)),
                "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, CutsTest,
                         ::testing::Combine(::testing::ValuesIn(AllOps::kNames),
                                            ::testing::ValuesIn(kAllValueTypes)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::string(ValueTypeName(std::get<1>(info.param)));
                         });

TEST_F(DevicesTest, ManyBatchesGoToAllDevicesAndTheirStatesMeetByPeerCopies) {
  // Small numbers: none leaves the window, and goes to the host for that.
  const auto updates = testing::MakeUpdates(
      spec_, {.nnz = 200, .contributors = 24, .values = testing::Values::kSmall}, 5);
  for (const int devices : {4, 8}) {
    testing::ResetFakeGpu();
    const auto backend = testing::MakeGpuGroup(devices, kUpdateIsABatch);
    EXPECT_EQ(Difference(Expected(spec_, updates), testing::Reduce(*backend, spec_, updates)), "");
    EXPECT_EQ(testing::DevicesWithEntries(), devices);
    int targets = 0;
    for (int device = 0; device < devices; ++device) {
      targets += TheFakeGpu(device).peer_bytes > 0 ? 1 : 0;
    }
    EXPECT_EQ(targets, 1) << "one device merges";
    uint64_t downloaded = 0;
    for (const DeviceStats& stats : backend->device_stats()) {
      EXPECT_EQ(stats.queued_bytes, 0u);
      downloaded += stats.downloaded_bytes > 0 ? 1 : 0;
    }
    EXPECT_EQ(downloaded, 1u) << "no state has gone through the host";
  }
}

TEST_F(DevicesTest, StatesGoThroughTheHostWherePeerCopiesFail) {
  const auto updates = Updates(spec_, 5);
  const auto expected = Expected(spec_, updates);
  for (const cudaError_t error : {cudaErrorPeerAccessUnsupported, cudaErrorMemoryAllocation}) {
    testing::ResetFakeGpu();
    TheFakeMachine().peer_access = false;
    TheFakeMachine().peer_error = error;
    const auto backend = testing::MakeGpuGroup(3, kUpdateIsABatch);
    EXPECT_EQ(Difference(expected, testing::Reduce(*backend, spec_, updates)), "");
    EXPECT_TRUE(backend->health().ok());
    EXPECT_EQ(TheFakeGpu(0).peer_bytes + TheFakeGpu(1).peer_bytes + TheFakeGpu(2).peer_bytes, 0u);
  }
}

TEST_F(DevicesTest, EveryPlanMeetsByPeerCopies) {
  const auto updates = Updates(spec_, 6);
  const auto expected = Expected(spec_, updates);
  const auto backend = testing::MakeGpuGroup(2, kUpdateIsABatch);
  for (const std::string& plan : testing::PlansFor(*backend, spec_)) {
    const uint64_t before = TheFakeGpu(0).peer_bytes + TheFakeGpu(1).peer_bytes;
    EXPECT_EQ(Difference(expected, testing::Reduce(*backend, spec_, updates, plan)), "") << plan;
    EXPECT_GT(TheFakeGpu(0).peer_bytes + TheFakeGpu(1).peer_bytes, before) << plan;
  }
}

TEST_F(DevicesTest, ASmallRoundStaysOnOneDevice) {
  const auto updates = Updates(spec_, 5);
  const auto backend = testing::MakeGpuGroup(4, {.calibrate = false});
  EXPECT_EQ(Difference(Expected(spec_, updates), testing::Reduce(*backend, spec_, updates)), "");
  EXPECT_EQ(testing::DevicesWithEntries(), 1);
  // The next round is for another device while the first one waits there.
  const auto first = testing::NewAggregator(*backend, spec_);
  const auto second = testing::NewAggregator(*backend, spec_);
  testing::ResetFakeGpu();
  TheFakeMachine().devices = 4;
  for (Aggregator* aggregator : {first.get(), second.get()}) {
    ASSERT_TRUE(aggregator->Accumulate(testing::StageCopy(*aggregator, updates[0]), 1).ok());
  }
  EXPECT_EQ(backend->device_stats()[0].queued_bytes, 200u * (8 + 12));
  EXPECT_EQ(backend->device_stats()[1].queued_bytes, 200u * (8 + 12));
  ASSERT_TRUE(std::move(*first).Report().ok());
  ASSERT_TRUE(std::move(*second).Report().ok());
  EXPECT_EQ(testing::DevicesWithEntries(), 2);
}

TEST_F(DevicesTest, DevicesThatAreNotAskedForAreLeftAlone) {
  TheFakeMachine().devices = 4;
  const auto updates = Updates(spec_, 5);
  auto each = MakeCudaBackends({.devices = {.all = false, .numbers = {3, 1}}}, kUpdateIsABatch);
  ASSERT_TRUE(each.ok());
  const auto backend = MakeDeviceGroup(*std::move(each));
  EXPECT_THAT(backend->info().devices,
              ::testing::ElementsAre("3: an emulated GPU", "1: an emulated GPU"));
  std::thread other([&] {  // whose current device is the first one
    EXPECT_EQ(Difference(Expected(spec_, updates), testing::Reduce(*backend, spec_, updates)), "");
  });
  other.join();
  EXPECT_FALSE(TheFakeGpu(0).used);
  EXPECT_FALSE(TheFakeGpu(2).used);
  EXPECT_TRUE(TheFakeGpu(1).used);
  EXPECT_EQ(testing::DevicesWithEntries(), 2);
}

TEST_F(DevicesTest, ADeviceThatTheMachineLacksIsAnError) {
  TheFakeMachine().devices = 2;
  const auto each = MakeCudaBackends({.devices = {.all = false, .numbers = {0, 2}}});
  EXPECT_EQ(ErrorReason(each.status()), "UNKNOWN_DEVICE");
  EXPECT_THAT(std::string(each.status().message()),
              ::testing::HasSubstr("no usable GPU 2; this machine has 2"));
}

TEST_F(DevicesTest, AnyDeviceReadsWhatWasStagedWithoutHoldingUpTheSender) {
  const auto backend = testing::MakeGpuGroup(3, kUpdateIsABatch);
  const auto aggregator = testing::NewAggregator(*backend, spec_);
  for (const testing::Update& update : Updates(spec_, 5)) {
    ASSERT_TRUE(
        aggregator->Accumulate(testing::StageCopy(*aggregator, update), update.weight).ok());
  }
  ASSERT_TRUE(aggregator->Snapshot().ok());
  for (int device = 0; device < 3; ++device) {
    EXPECT_GT(TheFakeGpu(device).to_device_bytes, 0u);
    EXPECT_FALSE(TheFakeGpu(device).waiting_threads.contains(std::this_thread::get_id()));
  }
}

}  // namespace
}  // namespace sparseagg
