// Counts stay on the device while a batch is reduced: what the host waits for, and what memory that
// takes. The fake GPU counts waits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cuda/cost_model.h"
#include "cuda/device_reduction.h"
#include "sparse/reference_backend.h"
#include "sparse/validate.h"
#include "tests/cuda/emulator/runtime.h"
#include "tests/support/workload.h"

namespace sparseagg::gpu {
namespace {

using sparseagg::testing::Difference;
using sparseagg::testing::Distribution;
using sparseagg::testing::MakeSpec;
using sparseagg::testing::MakeUpdates;
using sparseagg::testing::ResetFakeGpu;
using sparseagg::testing::TheFakeGpu;
using sparseagg::testing::TheFakeMachine;
using sparseagg::testing::Update;
using sparseagg::testing::Values;

// At the end of a batch: for its reduction, and for its upload, which is over by then.
constexpr uint64_t kWaitsOfABatch = 2;

class CountsTest : public ::testing::Test {
 protected:
  void SetUp() override { ResetFakeGpu(); }

  static std::vector<std::string> Plans() {
    std::vector<std::string> plans;
    for (const DevicePlan& row : DevicePlans()) plans.emplace_back(row.name);
    return plans;
  }
  static absl::StatusOr<Aggregate> Expected(const ReduceSpec& spec,
                                            const std::vector<Update>& updates) {
    return sparseagg::testing::Reduce(**MakeReferenceBackend({}), spec, updates);
  }
  // A batch of updates [begin, end).
  static void AddTo(Batch& batch, Context& context, const ReduceSpec& spec,
                    const std::vector<Update>& updates, size_t begin, size_t end) {
    for (size_t u = begin; u < end; ++u) {
      const Update& update = updates[u];
      StagedUpdate staged = context.staging.Stage(spec.layout, update.rows.size()).value();
      std::copy(update.rows.begin(), update.rows.end(), staged.entries.rows.wide());
      std::memcpy(staged.entries.values, update.values.data(), update.values.size());
      staged.order = ValidateUpdate(spec, staged.entries.view(), update.weight).value();
      batch.Add({std::move(staged), update.weight});
    }
  }
  // They are one batch.
  static void Fold(DeviceReduction& reduction, Context& context, const ReduceSpec& spec,
                   const std::vector<Update>& updates, size_t begin, size_t end) {
    Batch batch(context.uploads, context.staging);
    AddTo(batch, context, spec, updates, begin, end);
    reduction.Fold(batch);
  }
};

TEST_F(CountsTest, ABatchIsReducedWithoutAWaitForACount) {
  const std::pair<const char*, uint32_t> specs[] = {
      {"sum", 1}, {"sum", 64}, {"mean_of_contributors", 1}, {"mean_of_contributors", 3}, {"min", 1},
      {"max", 2}, {"count", 1}};
  for (const auto& [op, width] : specs) {
    for (const Distribution rows : {Distribution::kZipf, Distribution::kSorted}) {
      const ReduceSpec spec = MakeSpec(op, ValueType::kF32, 2000, width);
      const auto updates = MakeUpdates(
          spec, {.nnz = 700, .contributors = 9, .distribution = rows, .values = Values::kSmall}, 7);
      for (const std::string& plan : Plans()) {
        // Thrust's algorithms wait for the number of what they give.
        if (plan == "thrust_sort_reduce") continue;
        MemoryPool pool(0, uint64_t{1} << 30);
        Context context(pool, uint64_t{64} << 20);
        DeviceReduction reduction(spec, plan, context);
        for (size_t begin = 0; begin < updates.size(); begin += 3) {
          Batch batch(context.uploads, context.staging);
          AddTo(batch, context, spec, updates, begin, begin + 3);
          ResetFakeGpu();
          reduction.Fold(batch);
          EXPECT_EQ(TheFakeGpu().waits, kWaitsOfABatch)
              << plan << " " << op << " of " << width << ", updates from " << begin;
        }
        EXPECT_EQ(Difference(Expected(spec, updates), reduction.Finish(1)), "")
            << plan << " " << op << " of " << width;
      }
    }
  }
}

TEST_F(CountsTest, WhereMemoryIsShortTheHostWaitsForCountsAndTheBitsAreTheSame) {
  const ReduceSpec spec = MakeSpec("mean_of_contributors", ValueType::kF32, 2000, 1);
  const auto updates =
      MakeUpdates(spec, {.nnz = 700, .contributors = 9, .distribution = Distribution::kSorted}, 7);
  for (const char* plan : {"radix_segments", "row_reduce", "tile_merge"}) {
    MemoryPool pool(0, uint64_t{256} << 10);
    Context context(pool, uint64_t{64} << 20);
    DeviceReduction reduction(spec, plan, context);
    ResetFakeGpu();
    for (size_t u = 0; u < updates.size(); ++u) Fold(reduction, context, spec, updates, u, u + 1);
    EXPECT_GT(TheFakeGpu().waits, updates.size() * kWaitsOfABatch) << plan;
    EXPECT_EQ(reduction.host_bytes(), 0u) << plan << " need not leave the device";
    EXPECT_EQ(Difference(Expected(spec, updates), reduction.Finish(1)), "") << plan;
  }
}

TEST_F(CountsTest, WithoutPagesToLockCountsArriveAllTheSame) {
  TheFakeMachine().pinned_bytes = 0;
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 2000, 1);
  const auto updates = MakeUpdates(spec, {.nnz = 700, .contributors = 4}, 7);
  MemoryPool pool(0, uint64_t{1} << 30);
  Context context(pool, uint64_t{64} << 20);
  DeviceReduction reduction(spec, "radix_segments", context);
  for (size_t u = 0; u < updates.size(); ++u) Fold(reduction, context, spec, updates, u, u + 1);
  EXPECT_EQ(Difference(Expected(spec, updates), reduction.Finish(1)), "");
  ResetFakeGpu();
}

TEST_F(CountsTest, AStateOfFewRowsGivesBackTheMemoryForMany) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 1'000'000, 1);
  const auto updates = MakeUpdates(
      spec, {.nnz = 5000, .contributors = 60, .distribution = Distribution::kIdentical}, 7);
  for (const char* plan : {"radix_segments", "tile_merge"}) {
    MemoryPool pool(0, uint64_t{1} << 30);
    Context context(pool, uint64_t{64} << 20);
    DeviceReduction reduction(spec, plan, context);
    Fold(reduction, context, spec, updates, 0, updates.size());
    EXPECT_EQ(reduction.device_bytes(), 5000 * (sizeof(uint64_t) + sizeof(Int128))) << plan;
    EXPECT_EQ(pool.used_bytes(), reduction.device_bytes()) << plan;
    EXPECT_EQ(Difference(Expected(spec, updates), reduction.Finish(1)), "") << plan;
  }
}

TEST_F(CountsTest, ASnapshotOfADenseStateKeepsNoMemory) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 5000, 1);
  const auto updates = MakeUpdates(spec, {.nnz = 5000, .contributors = 1}, 7);
  for (const char* plan : {"dense_accumulate", "cusparse_dense"}) {
    MemoryPool pool(0, uint64_t{1} << 30);
    Context context(pool, uint64_t{64} << 20);
    DeviceReduction reduction(spec, plan, context);
    Fold(reduction, context, spec, updates, 0, 1);
    ResetFakeGpu();
    EXPECT_EQ(reduction.State().rows.size(), 5000u);
    const uint64_t peak = TheFakeGpu().memory_peak;
    EXPECT_EQ(pool.used_bytes(), reduction.device_bytes()) << plan;
    reduction.State();
    EXPECT_EQ(TheFakeGpu().memory_peak, peak) << plan << ": two at a time";
    EXPECT_EQ(Difference(Expected(spec, updates), reduction.Finish(1)), "") << plan;
  }
}

TEST_F(CountsTest, ADenseStateIsListedAndRoundedInTheMemoryThatItsPlanCounts) {
  for (const auto& [op, width] : {std::pair{"sum", 1u}, {"max", 2u}, {"count", 1u}}) {
    const ReduceSpec spec = MakeSpec(op, ValueType::kF64, 20'000, width);
    const auto updates = MakeUpdates(spec, {.nnz = 20'000, .contributors = 1}, 7);
    for (const char* plan : {"dense_accumulate", "cusparse_dense"}) {
      // What is of no size that grows with the rows: places of a block, a matrix' last row.
      const uint64_t memory = CudaCost({}, plan, spec, {}).index_space_bytes() + 4096;
      MemoryPool pool(0, uint64_t{1} << 30);
      Context context(pool, uint64_t{64} << 20);
      DeviceReduction reduction(spec, plan, context);
      Fold(reduction, context, spec, updates, 0, 1);
      ResetFakeGpu();
      reduction.State();
      EXPECT_EQ(Difference(Expected(spec, updates), reduction.Finish(1)), "") << plan;
      EXPECT_LE(TheFakeGpu().memory_peak, memory) << plan << " " << op;
    }
  }
}

TEST_F(CountsTest, MoreSideEntriesThanTheirListHoldsAreAllFound) {
  // The first batch decides a window that holds nothing of the second.
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF64, 500, 1);
  auto updates = MakeUpdates(spec, {.nnz = 400, .contributors = 1, .values = Values::kSmall}, 7);
  for (Update& update :
       MakeUpdates(spec, {.nnz = 400, .contributors = 3, .values = Values::kSubnormal}, 8)) {
    updates.push_back(std::move(update));
  }
  MemoryPool pool(0, uint64_t{1} << 30);
  Context context(pool, uint64_t{64} << 20);
  DeviceReduction reduction(spec, "radix_segments", context);
  for (const auto& [begin, end] : {std::pair{size_t{0}, size_t{1}}, {size_t{1}, updates.size()}}) {
    Batch batch(context.uploads, context.staging);
    AddTo(batch, context, spec, updates, begin, end);
    ResetFakeGpu();
    reduction.Fold(batch);
  }
  EXPECT_GE(TheFakeGpu().waits, kWaitsOfABatch + 1200 / 256) << "several lists";
  EXPECT_EQ(Difference(Expected(spec, updates), reduction.Finish(1)), "");
}

}  // namespace
}  // namespace sparseagg::gpu
