// From the decoder's memory to the result: what runs beside what. The fake GPU's waits can
// be made to last.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/cuda_backend.h"
#include "cuda/memory/download.h"
#include "cuda/raii/memory_pool.h"
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

constexpr uint64_t kUpdateBytes = 100 * (sizeof(uint64_t) + sizeof(float));

class PipelineTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::ResetFakeGpu(); }
  void TearDown() override { testing::ResetFakeGpu(); }

  static std::unique_ptr<Backend> MakeBackend(gpu::Tuning tuning) {
    tuning.calibrate = false;
    tuning.wait_max = std::chrono::hours(1);
    auto backend = *MakeCudaBackend({}, tuning);
    testing::ResetFakeGpu();
    return backend;
  }
  absl::Status Add(Aggregator& aggregator, size_t u) const {
    return aggregator.Accumulate(testing::StageCopy(aggregator, updates_[u]), updates_[u].weight);
  }
  absl::StatusOr<Aggregate> Expected() const {
    return testing::Reduce(**MakeReferenceBackend({}), spec_, updates_);
  }

  const ReduceSpec spec_ = MakeSpec("sum", ValueType::kF32, 1000, 1);
  const std::vector<testing::Update> updates_ =
      testing::MakeUpdates(spec_, {.nnz = 100, .contributors = 12}, 5);
};

TEST_F(PipelineTest, TheDecoderWritesIntoPageLockedMemory) {
  const auto backend = MakeBackend({});
  const auto aggregator = testing::NewAggregator(*backend, spec_);
  const StagedUpdate staged = aggregator->Stage(100).value();
  EXPECT_TRUE(testing::IsPinned(staged.entries.rows.wide()));
  EXPECT_TRUE(testing::IsPinned(staged.entries.values));
}

TEST_F(PipelineTest, UpdatesAreUploadedBeforeTheBatchIsFull) {
  const auto backend = MakeBackend({.upload_bytes = 2 * kUpdateBytes});
  const auto aggregator = testing::NewAggregator(*backend, spec_);
  ASSERT_TRUE(Add(*aggregator, 0).ok());
  EXPECT_EQ(TheFakeGpu().transfers, 0u);
  ASSERT_TRUE(Add(*aggregator, 1).ok());
  EXPECT_EQ(TheFakeGpu().transfers, 1u) << "two small updates, one behind another";
  ASSERT_TRUE(Add(*aggregator, 2).ok());
  ASSERT_TRUE(Add(*aggregator, 3).ok());
  EXPECT_EQ(TheFakeGpu().transfers, 2u);
}

// As the server has it: a back end in front keeps the updates and lends them.
TEST_F(PipelineTest, UpdatesThatAreLentAreUploadedBeforeTheBatchIsFull) {
  const auto backend = MakeFailoverBackend(MakeBackend({.upload_bytes = kUpdateBytes}),
                                           *MakeReferenceBackend({}), {});
  const auto aggregator = testing::NewAggregator(*backend, spec_);
  ASSERT_TRUE(Add(*aggregator, 0).ok());
  EXPECT_EQ(TheFakeGpu().transfers, 1u);
  EXPECT_EQ(TheFakeGpu().waits, 0u);
}

TEST_F(PipelineTest, WhileABatchIsReducedTheNextIsStagedAndUploaded) {
  const auto backend = MakeBackend({.upload_bytes = kUpdateBytes, .batch_bytes = 4 * kUpdateBytes});
  const auto aggregator = testing::NewAggregator(*backend, spec_);
  TheFakeGpu().hangs_at_call = 1;
  size_t u = 0;
  for (; u < 5; ++u) ASSERT_TRUE(Add(*aggregator, u).ok());
  testing::AwaitHang();  // in the reduction of the first four
  const uint64_t before = testing::Transfers();
  for (; u < 8; ++u) ASSERT_TRUE(Add(*aggregator, u).ok());
  EXPECT_EQ(testing::Transfers(), before + 3);
  testing::EndHang();
  for (; u < updates_.size(); ++u) ASSERT_TRUE(Add(*aggregator, u).ok());
  EXPECT_EQ(Difference(Expected(), std::move(*aggregator).Report()), "");
}

TEST_F(PipelineTest, AThirdBatchWaitsForTheFirst) {
  const auto backend = MakeBackend({.upload_bytes = kUpdateBytes, .batch_bytes = 2 * kUpdateBytes});
  const auto aggregator = testing::NewAggregator(*backend, spec_);
  TheFakeGpu().hangs_at_call = 1;
  for (size_t u = 0; u < 4; ++u) ASSERT_TRUE(Add(*aggregator, u).ok());
  auto fifth = std::async(std::launch::async, [&] { return Add(*aggregator, 4); });
  EXPECT_EQ(fifth.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  testing::EndHang();
  EXPECT_TRUE(fifth.get().ok());
  for (size_t u = 5; u < updates_.size(); ++u) ASSERT_TRUE(Add(*aggregator, u).ok());
  EXPECT_EQ(Difference(Expected(), std::move(*aggregator).Report()), "");
}

// However many have come before. Updates in ordinary memory are uploaded when they are reduced, so
// what has been uploaded is what has been.
TEST_F(PipelineTest, WhatIsLeftAfterAnUpdateIsBoundedByTwoBatches) {
  constexpr uint64_t kBatch = 4 * kUpdateBytes;
  const auto backend = MakeBackend({.batch_bytes = kBatch});
  TheFakeMachine().pinned_bytes = 0;
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, uint64_t{1} << 40, 1);
  const auto updates = testing::MakeUpdates(spec, {.nnz = 100, .contributors = 100}, 5);
  for (const char* plan : {"radix_segments", "tile_merge", "row_reduce"}) {
    const auto aggregator = testing::NewAggregator(*backend, spec, plan);
    const uint64_t before = testing::BytesToDevice();
    uint64_t most_left = 0;
    for (size_t u = 0; u < updates.size(); ++u) {
      const absl::Status added =
          aggregator->Accumulate(testing::StageCopy(*aggregator, updates[u]), updates[u].weight);
      ASSERT_TRUE(added.ok()) << added;
      const uint64_t reduced = testing::BytesToDevice() - before;  // and tables of updates
      const uint64_t added_bytes = (u + 1) * kUpdateBytes;
      if (reduced < added_bytes) most_left = std::max(most_left, added_bytes - reduced);
    }
    // One that is being reduced, and one that is being filled by an update that does not fit.
    EXPECT_LE(most_left, 2 * (kBatch + kUpdateBytes)) << plan;
    EXPECT_EQ(Difference(testing::Reduce(**MakeReferenceBackend({}), spec, updates),
                         std::move(*aggregator).Report()),
              "");
  }
}

// Copies from ordinary memory may wait for everything queued: those are the device thread's.
TEST_F(PipelineTest, WithFewPagesToLockTheThreadOfARoundDoesNotWaitForTheDevice) {
  // None, and a region of which room for a few updates is left.
  for (const uint64_t pinned : {uint64_t{0}, uint64_t{17} << 20}) {
    const auto backend = MakeBackend({.upload_bytes = 1, .batch_bytes = 4 * kUpdateBytes});
    TheFakeMachine().pinned_bytes = pinned;
    const auto other = testing::NewAggregator(*backend, spec_);
    const StagedUpdate taken = other->Stage(((16 << 20) - 5 * kUpdateBytes) / 12).value();
    EXPECT_EQ(Difference(Expected(), testing::Reduce(*backend, spec_, updates_)), "");
    EXPECT_FALSE(TheFakeGpu().waiting_threads.empty());
    EXPECT_FALSE(TheFakeGpu().waiting_threads.contains(std::this_thread::get_id())) << pinned;
  }
}

TEST_F(PipelineTest, ARoundThatIsGivenUpLeavesWhatItHasUploaded) {
  const auto backend = MakeBackend({.upload_bytes = kUpdateBytes});
  {
    const auto aggregator = testing::NewAggregator(*backend, spec_);
    for (size_t u = 0; u < 4; ++u) ASSERT_TRUE(Add(*aggregator, u).ok());
    EXPECT_GE(TheFakeGpu().memory_used, 4 * kUpdateBytes);
  }
  EXPECT_EQ(TheFakeGpu().memory_used, 0u);
}

TEST_F(PipelineTest, ResultsComeBackInPiecesThroughAFewPageLockedBuffers) {
  gpu::MemoryPool pool(0, uint64_t{1} << 30);
  gpu::Queue queue(pool);
  const gpu::ResultMemory results(0);
  gpu::Downloads downloads(results);
  for (const size_t size : {size_t{1}, size_t{1} << 13, (size_t{1} << 20) - 1, size_t{1} << 20,
                            (size_t{3} << 20) + 17, (size_t{9} << 20) - 1}) {
    gpu::DeviceArray<uint64_t> numbers(queue, size);
    std::iota(numbers.data(), numbers.data() + size, uint64_t{3});
    testing::ResetFakeGpu();
    std::vector<uint64_t> fetched(size);
    downloads.Copy(queue, numbers.data(), fetched.data(), size);
    EXPECT_TRUE(std::equal(fetched.begin(), fetched.end(), numbers.data())) << size;
    EXPECT_EQ(TheFakeGpu().transfers, (size * sizeof(uint64_t) + (8 << 20) - 1) / (8 << 20));
  }
  EXPECT_EQ(TheFakeMachine().pinned_used, uint64_t{48} << 20);
}

}  // namespace
}  // namespace sparseagg
