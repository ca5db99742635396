// A device that hangs: it takes what is queued and never ends it. The GPU is the fake one. Time is
// injected: each look at the clock is a second later than the one before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cuda/cuda_backend.h"
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

gpu::Tuning WithAClockThatRuns() {
  gpu::Tuning tuning{.calibrate = false, .upload_bytes = 4096, .batch_bytes = 16384};
  tuning.watch_period = std::chrono::milliseconds(1);
  tuning.clock = [now = std::make_shared<std::atomic<int>>(0)] {
    return std::chrono::steady_clock::time_point(std::chrono::seconds(++*now));
  };
  return tuning;
}

class HangTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::ResetFakeGpu(); }
  // The thread that was given up wakes, and must find everything that it uses.
  void TearDown() override { testing::ResetFakeGpu(); }

  std::unique_ptr<Backend> CudaOverReference() {
    auto backend =
        MakeFailoverBackend(*MakeCudaBackend({}, WithAClockThatRuns()), *MakeReferenceBackend({}),
                            {.on_loss = [this](const absl::Status&) { ++losses_; }});
    testing::ResetFakeGpu();
    return backend;
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
  int losses_ = 0;
};

TEST_F(HangTest, WhereverItHangsTheRoundGoesOnWithTheSameBits) {
  uint64_t calls = 0;
  {
    const auto backend = CudaOverReference();
    EXPECT_EQ(Difference(expected_, testing::Reduce(*backend, spec_, updates_)), "");
    calls = TheFakeGpu().calls;
    EXPECT_EQ(losses_, 0);
  }
  ASSERT_GT(calls, 150u);
  for (uint64_t call = 1; call < calls; call += calls / 24) {
    losses_ = 0;
    {
      const auto backend = CudaOverReference();
      TheFakeGpu().hangs_at_call = call;
      ASSERT_EQ(Difference(expected_, testing::Reduce(*backend, spec_, updates_)), "") << call;
      // After the last calls nobody waits any more. How many there are depends on how many updates
      // were there when a batch began.
      const uint64_t made = TheFakeGpu().calls;
      const bool lost = ErrorReason(backend->health()) == "GPU_LOST";
      EXPECT_EQ(losses_, lost ? 1 : 0) << call;
      EXPECT_TRUE(lost || call > made - made / 8) << call << " of " << made;
    }
    testing::EndHang();  // its thread ends in the middle of what comes next
  }
}

// With no pages to lock every transfer is a copy from ordinary memory, which may wait.
TEST_F(HangTest, ADeviceThatHangsInACopyFromOrdinaryMemoryIsNoticed) {
  for (const uint64_t pinned : {uint64_t{0}, TheFakeMachine().pinned_bytes}) {
    losses_ = 0;
    {
      const auto backend = CudaOverReference();
      TheFakeMachine().pinned_bytes = pinned;
      TheFakeGpu().hangs_at_call = 1;
      auto result = std::async(std::launch::async,
                               [&] { return testing::Reduce(*backend, spec_, updates_); });
      EXPECT_EQ(result.wait_for(std::chrono::minutes(1)), std::future_status::ready) << pinned;
      EXPECT_EQ(losses_, 1) << pinned;
      if (losses_ == 0) testing::EndHang();
      EXPECT_EQ(Difference(expected_, result.get()), "") << pinned;
    }
    testing::EndHang();
  }
}

TEST_F(HangTest, HealthTellsWithoutAnyoneWhoWaits) {
  const auto backend = *MakeCudaBackend({}, WithAClockThatRuns());
  testing::ResetFakeGpu();
  TheFakeGpu().hangs_at_call = 1;
  const auto aggregator = testing::NewAggregator(*backend, spec_);
  // Two small updates are more than a batch: the first is being reduced from the second on.
  for (const testing::Update& update : updates_) {
    if (!aggregator->Accumulate(testing::StageCopy(*aggregator, update), update.weight).ok()) break;
    if (backend->health().ok()) continue;
    break;
  }
  testing::AwaitHang();
  absl::Status health;
  for (int look = 0; look < 100 && health.ok(); ++look) health = backend->health();
  EXPECT_EQ(ErrorReason(health), "GPU_LOST");
  EXPECT_THAT(std::string(health.message()), ::testing::HasSubstr("has not answered for 60 s"));
}

TEST_F(HangTest, OtherRoundsOfTheDeviceGoOnToo) {
  const auto backend = CudaOverReference();
  const auto first = testing::NewAggregator(*backend, spec_);
  const auto second = testing::NewAggregator(*backend, spec_);
  for (size_t u = 0; u < updates_.size(); ++u) {
    if (u == updates_.size() / 2) TheFakeGpu().hangs_at_call = TheFakeGpu().calls + 1;
    for (const auto& aggregator : {first.get(), second.get()}) {
      ASSERT_TRUE(
          aggregator->Accumulate(testing::StageCopy(*aggregator, updates_[u]), updates_[u].weight)
              .ok());
    }
  }
  EXPECT_EQ(Difference(expected_, std::move(*first).Report()), "");
  EXPECT_EQ(Difference(expected_, std::move(*second).Report()), "");
  EXPECT_EQ(losses_, 1) << "told once";
  EXPECT_THAT(first->plan_report().reason, ::testing::HasSubstr("has not answered"));
}

TEST_F(HangTest, ADeviceThatIsSlowIsNotLost) {
  gpu::Tuning tuning = WithAClockThatRuns();
  tuning.wait_max = std::chrono::seconds(1'000'000'000);
  const auto backend = *MakeCudaBackend({}, tuning);
  testing::ResetFakeGpu();
  TheFakeGpu().hangs_at_call = 1;
  auto result =
      std::async(std::launch::async, [&] { return testing::Reduce(*backend, spec_, updates_); });
  testing::AwaitHang();
  for (int look = 0; look < 1000; ++look) EXPECT_TRUE(backend->health().ok());
  testing::EndHang();
  EXPECT_EQ(Difference(expected_, result.get()), "");
}

}  // namespace
}  // namespace sparseagg
