#include "cuda/memory/staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>
#include <vector>

#include "tests/cuda/emulator/runtime.h"

namespace sparseagg::gpu {
namespace {

constexpr TensorLayout kScalars{.num_rows = 1000, .row_width = 1, .value_type = ValueType::kF32};

TEST(PinnedStaging, UpdatesStagedOneAfterAnotherLieOneAfterAnother) {
  PinnedStaging staging(uint64_t{64} << 20);
  std::vector<StagedUpdate> updates;
  for (const uint64_t nnz : {1, 10, 1000, 17}) {
    updates.push_back(staging.Stage(kScalars, nnz).value());
  }
  for (size_t u = 1; u < updates.size(); ++u) {
    EXPECT_TRUE(PinnedStaging::IsNext(updates[u - 1].entries.rows.wide(), updates[u - 1].bytes,
                                      updates[u].entries.rows.wide()));
  }
  EXPECT_FALSE(PinnedStaging::IsNext(updates[0].entries.rows.wide(), updates[0].bytes,
                                     updates[2].entries.rows.wide()));
}

TEST(PinnedStaging, RegionsAreUsedAgain) {
  PinnedStaging staging(uint64_t{64} << 20);
  for (int i = 0; i < 100; ++i) {
    const auto update = staging.Stage(kScalars, 100'000);
    ASSERT_TRUE(update.ok());
    std::fill_n(update->entries.rows.wide(), 100'000, uint64_t{1});
  }
  EXPECT_LE(staging.locked_bytes(), uint64_t{32} << 20);
}

TEST(PinnedStaging, OthersStageWhilePagesAreLockedAndUnlocked) {
  PinnedStaging staging(uint64_t{40} << 20);
  StagedUpdate first = staging.Stage(kScalars, 100'000).value();
  std::vector<std::future<bool>> others;
  sparseagg::testing::TheFakeMachine().in_page_locking = [&] {
    others.push_back(
        std::async(std::launch::async, [&] { return staging.Stage(kScalars, 10).ok(); }));
    EXPECT_EQ(others.back().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  };
  StagedUpdate large = staging.Stage(kScalars, 1'500'000).value();  // in a region of its own
  EXPECT_EQ(others.size(), 1u);
  // Another one has room when the first region is unlocked.
  first = {};
  large = {};
  large = staging.Stage(kScalars, 1'800'000).value();
  EXPECT_EQ(others.size(), 3u);
  EXPECT_TRUE(sparseagg::testing::IsPinned(large.entries.rows.wide()));
  for (std::future<bool>& other : others) EXPECT_TRUE(other.get());
  sparseagg::testing::TheFakeMachine().in_page_locking = nullptr;
}

TEST(PinnedStaging, BeyondTheBudgetUpdatesAreStagedInOrdinaryMemory) {
  PinnedStaging staging(uint64_t{20} << 20);
  std::vector<StagedUpdate> updates;
  for (int i = 0; i < 40; ++i) updates.push_back(staging.Stage(kScalars, 100'000).value());
  EXPECT_LE(staging.locked_bytes(), uint64_t{20} << 20);
  for (const StagedUpdate& update : updates) EXPECT_NE(update.entries.rows.wide(), nullptr);
}

TEST(PinnedStaging, AnUpdateLargerThanARegionHasOneOfItsOwn) {
  PinnedStaging staging(uint64_t{1} << 30);
  const auto update = staging.Stage(kScalars, 4'000'000);
  ASSERT_TRUE(update.ok());
  EXPECT_GE(staging.locked_bytes(), update->bytes);
}

TEST(PinnedStaging, AnImpossibleSizeIsRefused) {
  PinnedStaging staging(uint64_t{1} << 30);
  EXPECT_FALSE(staging.Stage(kScalars, uint64_t{1} << 62).ok());
}

TEST(PinnedStaging, UpdatesMayOutliveIt) {
  std::optional<PinnedStaging> staging(std::in_place, uint64_t{64} << 20);
  StagedUpdate update = staging->Stage(kScalars, 100).value();
  staging.reset();
  std::fill_n(update.entries.rows.wide(), 100, uint64_t{7});
  update = {};
  EXPECT_EQ(sparseagg::testing::TheFakeMachine().pinned_used, 0u);
}

}  // namespace
}  // namespace sparseagg::gpu
