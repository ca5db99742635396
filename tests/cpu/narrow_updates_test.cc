// Updates with narrow rows, of two bytes each, give the bytes of the reference, wherever segments,
// slices and visits divide them. Updates that cannot have narrow rows keep eight bytes a row.
#include <gtest/gtest.h>

#include <tuple>

#include "cpu/cpu_backend.h"
#include "sparse/rows/narrow_rows.h"
#include "sparse/validate.h"
#include "tests/cpu/updates_by_density.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {
namespace {

constexpr DensityCase kCases[] = {
    {"Full", 1, ValueType::kF32, Values::kNormal},
    {"Crowded", 0.5, ValueType::kF32, Values::kHostile},
    {"Cancelling", 0.3, ValueType::kF32, Values::kCancelling},
    {"Thin", 0.1, ValueType::kF32, Values::kNormal},
    {"Ties", 0.15, ValueType::kF32, Values::kTies},
    {"Subnormal", 0.3, ValueType::kF32, Values::kSubnormal},
    {"Halves", 0.3, ValueType::kF16, Values::kNegativeZeros},
    {"Brains", 0.3, ValueType::kBF16, Values::kHostile},
    {"BeyondCells", 0.3, ValueType::kF64, Values::kFarApart},
    {"Integers", 0.3, ValueType::kI64, Values::kNormal},
    {"Repeats", 0.3, ValueType::kF32, Values::kHostile, true},
};

constexpr uint64_t kRows = 200'003;  // four segments, the last one short

class NarrowUpdatesTest : public UpdatesByDensity {
 protected:
  // The last update has none of the first segment.
  NarrowUpdatesTest() : UpdatesByDensity(kRows, 70'000, 5) {}

  // Returns how many of the updates kept their rows narrow.
  int Accumulate(Aggregator& aggregator) {
    int kept = 0;
    for (const Update& update : updates_) {
      StagedUpdate staged = StageNarrowCopy(aggregator, update);
      kept += staged.entries.rows.narrow() != nullptr ? 1 : 0;
      staged.order = OrderOf(update.rows.data(), update.rows.size());
      EXPECT_TRUE(aggregator.Accumulate(std::move(staged), update.weight).ok());
    }
    return kept;
  }
};

TEST_P(NarrowUpdatesTest, ADensePlanAddsThemSegmentBySegment) {
  for (const uint32_t threads : {1, 3}) {
    const auto cpu = *MakeCpuBackend({.threads = threads});
    const auto aggregator = NewAggregator(*cpu, spec_, "dense");
    EXPECT_GE(Accumulate(*aggregator), 3);
    EXPECT_EQ(Difference(expected_, std::move(*aggregator).Report()), "");
  }
}

TEST_P(NarrowUpdatesTest, MayArriveBesideOthers) {
  const auto cpu = *MakeCpuBackend({.threads = 2});
  const auto aggregator = NewAggregator(*cpu, spec_, "dense");
  bool narrow = false;
  for (const Update& update : updates_) {
    narrow = !narrow;
    StagedUpdate staged =
        narrow ? StageNarrowCopy(*aggregator, update) : StageCopy(*aggregator, update);
    staged.order = OrderOf(update.rows.data(), update.rows.size());
    ASSERT_TRUE(aggregator->Accumulate(std::move(staged), update.weight).ok());
  }
  EXPECT_EQ(Difference(expected_, std::move(*aggregator).Report()), "");
}

TEST_P(NarrowUpdatesTest, WhenHalfOfTheRowsMayBeHeldTheStateIsDense) {
  const auto cpu = *MakeCpuBackend({.threads = 2});
  Plan plan = *MakePlan(spec_, {}, cpu->info(), "sweep");
  plan.forced = false;
  const auto aggregator = *cpu->NewAggregator(plan);
  uint64_t entries = 0;
  bool dense = false;
  for (const Update& update : updates_) {
    const uint64_t nnz = update.rows.size();
    dense = dense || nnz >= kRows / 4 || entries + nnz > kRows / 2;
    StagedUpdate staged = StageNarrowCopy(*aggregator, update);
    EXPECT_EQ(staged.entries.rows.narrow() != nullptr, dense);
    EXPECT_EQ(staged.entries.rows.wide() == nullptr, dense);
    staged.order = OrderOf(update.rows.data(), nnz);
    ASSERT_TRUE(aggregator->Accumulate(std::move(staged), update.weight).ok());
    EXPECT_EQ(aggregator->plan_report().plan == "dense", dense);
    entries += nnz;
  }
  EXPECT_EQ(Difference(expected_, std::move(*aggregator).Report()), "");
}

TEST_P(NarrowUpdatesTest, AForcedPlanGetsRows) {
  const auto cpu = *MakeCpuBackend({.threads = 2});
  const auto aggregator = NewAggregator(*cpu, spec_, "sweep");
  EXPECT_EQ(Accumulate(*aggregator), 0);
  EXPECT_EQ(Difference(expected_, std::move(*aggregator).Report()), "");
}

INSTANTIATE_TEST_SUITE_P(All, NarrowUpdatesTest,
                         ::testing::Combine(::testing::ValuesIn(kCases),
                                            ::testing::Values("sum", "weighted_mean")),
                         &NarrowUpdatesTest::NameOf);

TEST(NarrowUpdatesOfOtherKindsTest, GetRowsOfEightBytes) {
  const auto cpu = *MakeCpuBackend({.threads = 2});
  const auto narrow = [&](const ReduceSpec& spec, uint64_t nnz) {
    const auto aggregator = NewAggregator(*cpu, spec, "dense");
    const StagedUpdate staged = aggregator->StageIncremental(nnz, {.narrow = true}).value();
    EXPECT_NE(staged.entries.rows.wide() == nullptr, staged.entries.rows.narrow() == nullptr)
        << spec.op;
    return staged.entries.rows.narrow() != nullptr;
  };
  EXPECT_TRUE(narrow(MakeSpec("sum", ValueType::kF32, kRows, 1), 20'000));
  EXPECT_FALSE(narrow(MakeSpec("sum", ValueType::kF32, kRows, 1), 10'000)) << "few entries";
  EXPECT_FALSE(narrow(MakeSpec("sum", ValueType::kF32, 40 * kRows, 1), 20'000)) << "far apart";
  EXPECT_FALSE(narrow(MakeSpec("sum", ValueType::kF32, kRows, 4), 20'000)) << "rows of values";
  for (const char* op : {"max", "mean_of_contributors", "count"}) {
    EXPECT_FALSE(narrow(MakeSpec(op, ValueType::kF32, kRows, 1), 20'000)) << op;
  }
}

}  // namespace
}  // namespace sparseagg::testing
