#include "sparse/device_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sparse/reference_backend.h"
#include "sparse/window.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

using testing::Difference;
using ::testing::ElementsAre;
using testing::MakeSpec;

constexpr uint64_t kBatchBytes = 1000;

// What a test says about a device, and what the device was asked to do.
struct FakeDevice {
  uint64_t queued_bytes = 0;
  bool lost = false;
  int updates = 0;
  int flushes = 0;
  int absorbs = 0;
};

class FakeAggregator : public Aggregator {
 public:
  FakeAggregator(FakeDevice& device, std::unique_ptr<Aggregator> aggregator)
      : device_(device), aggregator_(std::move(aggregator)) {}

  absl::StatusOr<StagedUpdate> Stage(uint64_t nnz) const override {
    return aggregator_->Stage(nnz);
  }
  absl::Status Accumulate(StagedUpdate update, float weight) override {
    ++device_.updates;
    return aggregator_->Accumulate(std::move(update), weight);
  }
  absl::Status Merge(const Partial& partial) override { return aggregator_->Merge(partial); }
  absl::Status Absorb(Aggregator& other) override {
    ++device_.absorbs;
    return Aggregator::Absorb(other);
  }
  absl::Status Flush() override {
    ++device_.flushes;
    return absl::OkStatus();
  }
  absl::StatusOr<Partial> Snapshot() override { return aggregator_->Snapshot(); }
  uint64_t memory_bytes() const override { return aggregator_->memory_bytes(); }
  PlanReport plan_report() const override { return aggregator_->plan_report(); }
  absl::StatusOr<Aggregate> Report() && override { return std::move(*aggregator_).Report(); }

 private:
  FakeDevice& device_;
  std::unique_ptr<Aggregator> aggregator_;
};

class FakeBackend : public Backend {
 public:
  FakeBackend(int number, FakeDevice& device) : device_(device), info_(reference_->info()) {
    info_.devices = {absl::StrCat(number, ": fake")};
    info_.memory_bytes = 1'000'000u + static_cast<uint64_t>(number);
    info_.device_batch_bytes = kBatchBytes;
    info_.description = "fake";
  }
  const BackendInfo& info() const override { return info_; }
  absl::Status health() const override {
    return device_.lost ? MakeError(absl::StatusCode::kUnavailable, "GPU_LOST", "lost")
                        : absl::OkStatus();
  }
  std::vector<DeviceStats> device_stats() const override {
    return {{.device = info_.devices[0], .queued_bytes = device_.queued_bytes}};
  }
  absl::StatusOr<std::unique_ptr<Aggregator>> NewAggregator(const Plan& plan) override {
    auto aggregator = reference_->NewAggregator(plan);
    if (!aggregator.ok()) return aggregator.status();
    return std::make_unique<FakeAggregator>(device_, *std::move(aggregator));
  }

 private:
  FakeDevice& device_;
  const std::unique_ptr<Backend> reference_ = *MakeReferenceBackend({});
  BackendInfo info_;
};

class DeviceGroupTest : public ::testing::Test {
 protected:
  DeviceGroupTest() {
    std::vector<std::unique_ptr<Backend>> devices;
    for (int device = 0; device < 3; ++device) {
      devices.push_back(std::make_unique<FakeBackend>(device, devices_[device]));
    }
    group_ = MakeDeviceGroup(std::move(devices));
  }

  void Accumulate(Aggregator& aggregator, size_t u) {
    ASSERT_TRUE(
        aggregator.Accumulate(testing::StageCopy(aggregator, updates_[u]), updates_[u].weight)
            .ok());
  }
  std::vector<int> UpdatesOfDevices() const {
    return {devices_[0].updates, devices_[1].updates, devices_[2].updates};
  }

  FakeDevice devices_[3];
  std::unique_ptr<Backend> group_;
  const ReduceSpec spec_ = MakeSpec("weighted_mean", ValueType::kF32, 100, 1);
  // An update is 12 bytes an entry, so three of them are a batch.
  const std::vector<testing::Update> updates_ =
      testing::MakeUpdates(spec_, {.nnz = 40, .contributors = 12}, 3);
};

TEST_F(DeviceGroupTest, ABatchGoesToTheDeviceWithTheFewestQueuedBytes) {
  devices_[0].queued_bytes = 500;
  devices_[1].queued_bytes = 100;
  devices_[2].queued_bytes = 300;
  const auto aggregator = testing::NewAggregator(*group_, spec_);
  for (size_t u = 0; u < 3; ++u) Accumulate(*aggregator, u);
  EXPECT_THAT(UpdatesOfDevices(), ElementsAre(0, 3, 0));
  devices_[1].queued_bytes = 400;
  for (size_t u = 3; u < 6; ++u) Accumulate(*aggregator, u);
  EXPECT_THAT(UpdatesOfDevices(), ElementsAre(0, 3, 3));
  EXPECT_EQ(devices_[1].flushes, 1) << "its batch begins";
  devices_[0].queued_bytes = 0;
  for (size_t u = 6; u < updates_.size(); ++u) Accumulate(*aggregator, u);
  EXPECT_THAT(UpdatesOfDevices(), ElementsAre(6, 3, 3));
  const auto expected = testing::Reduce(**MakeReferenceBackend({}), spec_, updates_);
  EXPECT_EQ(Difference(expected, std::move(*aggregator).Report()), "");
  EXPECT_EQ(devices_[0].absorbs + devices_[1].absorbs + devices_[2].absorbs, 2);
}

TEST_F(DeviceGroupTest, OfEquallyLoadedDevicesTheNextInTurnIsTaken) {
  const auto aggregator = testing::NewAggregator(*group_, spec_);
  for (size_t u = 0; u < updates_.size(); ++u) Accumulate(*aggregator, u);
  EXPECT_THAT(UpdatesOfDevices(), ElementsAre(6, 3, 3));
}

TEST_F(DeviceGroupTest, ALostDeviceGetsNoFurtherUpdate) {
  const auto aggregator = testing::NewAggregator(*group_, spec_);
  Accumulate(*aggregator, 0);
  devices_[0].lost = true;
  for (size_t u = 1; u < updates_.size(); ++u) Accumulate(*aggregator, u);
  EXPECT_EQ(devices_[0].updates, 1);
  EXPECT_EQ(UpdatesOfDevices()[1] + UpdatesOfDevices()[2], 11);
  EXPECT_EQ(ErrorReason(group_->health()), "GPU_LOST");
}

TEST_F(DeviceGroupTest, TheSumOfAllEntriesIsBoundedAndNotThatOfEachDevice) {
  const auto aggregator = testing::NewAggregator(*group_, spec_);
  Partial partial = testing::NewAggregator(**MakeReferenceBackend({}), spec_)->Snapshot().value();
  partial.addends = kAddendsMax - 39;
  ASSERT_TRUE(aggregator->Merge(partial).ok());
  devices_[0].lost = true;  // the update is for another device
  EXPECT_EQ(ErrorReason(aggregator->Accumulate(testing::StageCopy(*aggregator, updates_[0]), 1)),
            "TOO_MANY_ENTRIES");
  EXPECT_THAT(UpdatesOfDevices(), ElementsAre(0, 0, 0));
}

TEST_F(DeviceGroupTest, SaysWhatItsDevicesAre) {
  EXPECT_THAT(group_->info().devices, ElementsAre("0: fake", "1: fake", "2: fake"));
  EXPECT_EQ(group_->info().description, "3 devices: fake");
  EXPECT_EQ(group_->info().memory_bytes, 1'000'000u) << "that of the smallest one";
  EXPECT_EQ(group_->device_stats().size(), 3u);
}

TEST_F(DeviceGroupTest, ThePlanOfAKnownWorkloadIsForTheShareOfADevice) {
  BackendInfo info = group_->info();
  uint64_t most = 0;
  info.cost = [&](const BackendInfo&, std::string_view, const ReduceSpec&,
                  const Workload& workload) {
    most = std::max(most, workload.contributors);
    return PlanCost{.seconds = 1e-3};
  };
  const auto plan = [&](uint64_t contributors) {
    most = 0;
    return *MakePlan(spec_, {.contributors = contributors, .nnz_per_update = 40}, info);
  };
  EXPECT_EQ(plan(4).devices, 1u) << "less than two batches";
  EXPECT_EQ(most, 4u);
  EXPECT_EQ(plan(5).devices, 2u);
  EXPECT_EQ(most, 3u);
  EXPECT_EQ(plan(3000).devices, 3u);
  EXPECT_EQ(most, 1000u);
  EXPECT_THAT(plan(5).reason, ::testing::HasSubstr("; on 2 of 3 devices"));
}

}  // namespace
}  // namespace sparseagg
