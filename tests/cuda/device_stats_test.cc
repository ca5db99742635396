// What the back end says of its device, and page-locked memory for results. The GPU is fake.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/cuda_backend.h"
#include "cuda/memory/result_memory.h"
#include "sparse/failover_backend.h"
#include "sparse/reference_backend.h"
#include "tests/cuda/emulator/runtime.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

using testing::Difference;
using testing::MakeSpec;
using testing::TheFakeGpu;
using testing::TheFakeMachine;

constexpr uint64_t kEntries = 100'000;
constexpr uint64_t kUpdateBytes = kEntries * (sizeof(uint64_t) + sizeof(float));

class DeviceStatsTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::ResetFakeGpu(); }
  void TearDown() override { testing::ResetFakeGpu(); }

  // Makes the back end as the server does.
  static std::unique_ptr<Backend> MakeBackend() {
    gpu::Tuning tuning{.calibrate = false, .upload_bytes = 1};
    tuning.wait_max = std::chrono::hours(1);
    return MakeFailoverBackend(*MakeCudaBackend({}, tuning), *MakeReferenceBackend({}), {});
  }

  const ReduceSpec spec_ = MakeSpec("sum", ValueType::kF32, 1'000'000, 1);
  const std::vector<testing::Update> updates_ = testing::MakeUpdates(
      spec_,
      {.nnz = kEntries, .contributors = 2, .distribution = testing::Distribution::kIdentical}, 5);
};

TEST_F(DeviceStatsTest, AHostsProcessorHasNone) {
  EXPECT_TRUE((*MakeReferenceBackend({}))->device_stats().empty());
}

TEST_F(DeviceStatsTest, SaysWhatIsInUseAndWhatHasBeenTransferred) {
  const auto backend = MakeBackend();
  const DeviceStats before = backend->device_stats().at(0);
  EXPECT_EQ(before.memory_bytes, 0u);
  EXPECT_EQ(before.memory_bytes_max, TheFakeGpu().memory_bytes / 4 * 3);
  EXPECT_EQ(before.uploaded_bytes, 0u);
  EXPECT_EQ(before.downloaded_bytes, 0u);
  {
    const auto aggregator = testing::NewAggregator(*backend, spec_, "radix_segments");
    for (const testing::Update& update : updates_) {
      ASSERT_TRUE(
          aggregator->Accumulate(testing::StageCopy(*aggregator, update), update.weight).ok());
    }
    const DeviceStats filled = backend->device_stats().at(0);
    EXPECT_EQ(filled.memory_bytes, TheFakeGpu().memory_used);
    EXPECT_GE(filled.memory_bytes, 2 * kUpdateBytes);
    EXPECT_GE(filled.uploaded_bytes, 2 * kUpdateBytes);
    EXPECT_EQ(filled.downloaded_bytes, 0u);
    EXPECT_GE(filled.locked_bytes, 2 * kUpdateBytes);
    ASSERT_TRUE(std::move(*aggregator).Report().ok());
  }
  // The device's thread lets go of a task after it has said that the task is done.
  ASSERT_TRUE(std::move(*testing::NewAggregator(*backend, spec_)).Report().ok());
  const DeviceStats after = backend->device_stats().at(0);
  EXPECT_EQ(after.memory_bytes, 0u);
  EXPECT_EQ(after.downloaded_bytes, kUpdateBytes) << "the rows and values of the result";
  EXPECT_GT(after.busy_seconds, before.busy_seconds);
  EXPECT_EQ(after.waiting_tasks, 0u);
}

TEST_F(DeviceStatsTest, SaysHowManyTasksWait) {
  const auto backend = MakeBackend();
  const auto first = testing::NewAggregator(*backend, spec_);
  const auto second = testing::NewAggregator(*backend, spec_);
  for (Aggregator* aggregator : {first.get(), second.get()}) {
    ASSERT_TRUE(aggregator->Accumulate(testing::StageCopy(*aggregator, updates_[0]), 1).ok());
  }
  TheFakeGpu().hangs_at_call = 1;
  auto one = std::async(std::launch::async, [&] { return std::move(*first).Report(); });
  testing::AwaitHang();
  auto two = std::async(std::launch::async, [&] { return std::move(*second).Report(); });
  while (backend->device_stats().at(0).waiting_tasks != 1) std::this_thread::yield();
  testing::EndHang();
  EXPECT_TRUE(one.get().ok());
  EXPECT_TRUE(two.get().ok());
  EXPECT_EQ(backend->device_stats().at(0).waiting_tasks, 0u);
}

TEST_F(DeviceStatsTest, TheSecondResultOfItsSizeIsWrittenIntoPageLockedMemory) {
  const auto memory = std::make_shared<gpu::ResultMemory>(uint64_t{64} << 20);
  const auto make = [&](size_t bytes) {
    HostVector<std::byte> vector{HostAllocator<std::byte>(memory)};
    vector.resize(bytes);
    return vector;
  };
  HostVector<std::byte> first = make(3 << 20);
  EXPECT_FALSE(testing::IsPinned(first.data())) << "nobody waits for pages to be locked";
  memory->AwaitLocked();
  EXPECT_GE(TheFakeMachine().pinned_used, uint64_t{3} << 20);
  HostVector<std::byte> second = make(3 << 20);
  EXPECT_TRUE(testing::IsPinned(second.data()));
  const HostVector<std::byte> moved = std::move(second);
  EXPECT_TRUE(testing::IsPinned(moved.data()));
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): the copy is what is tested
  const HostVector<std::byte> copied = moved;
  EXPECT_FALSE(testing::IsPinned(copied.data())) << "copies last longer than results";
  first = make(1000);
  EXPECT_FALSE(testing::IsPinned(first.data()));
}

TEST_F(DeviceStatsTest, PageLockedMemoryOfAResultComesBackAndItsBudgetHolds) {
  const auto memory = std::make_shared<gpu::ResultMemory>(uint64_t{20} << 20);
  for (int round = 0; round < 5; ++round) {
    void* block = memory->Allocate(10 << 20);
    memory->AwaitLocked();
    EXPECT_EQ(testing::IsPinned(block), round > 0) << round;
    memory->Free(block);
  }
  EXPECT_LE(memory->locked_bytes(), uint64_t{20} << 20);
  void* large = memory->Allocate(30 << 20);
  memory->AwaitLocked();
  EXPECT_FALSE(testing::IsPinned(large));
  memory->Free(large);
  EXPECT_LE(memory->locked_bytes(), uint64_t{20} << 20);
}

// More than one piece of the buffers, twice, and results that outlive the back end.
TEST_F(DeviceStatsTest, ResultsInPageLockedMemoryHaveTheSameBits) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 3'000'000, 1);
  const auto updates = testing::MakeUpdates(
      spec, {.nnz = 1'200'000, .contributors = 1, .distribution = testing::Distribution::kSorted},
      5);
  const auto expected = testing::Reduce(**MakeReferenceBackend({}), spec, updates);
  std::vector<absl::StatusOr<Aggregate>> results;
  {
    const auto backend = MakeBackend();
    for (int round = 0; round < 3; ++round) {
      results.push_back(testing::Reduce(*backend, spec, updates));
      if (round > 0) results[static_cast<size_t>(round) - 1] = absl::CancelledError("given back");
    }
  }
  EXPECT_EQ(Difference(expected, results.back()), "");
}

}  // namespace
}  // namespace sparseagg
