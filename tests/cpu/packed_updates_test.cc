// Updates whose rows stay as coo.packed encodes them until they are added give the bytes of the
// reference, for every form of blocks and wherever the slices of the dense plan divide them.
#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <malloc.h>

#include <limits>
#include <tuple>

#include "base/host_vector.h"
#include "cpu/cpu_backend.h"
#include "sparse/rows/packed_rows.h"
#include "sparse/validate.h"
#include "tests/cpu/only_target.h"
#include "tests/cpu/updates_by_density.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {
namespace {

constexpr DensityCase kCases[] = {
    {"Full", 1, ValueType::kF32, Values::kNormal},
    {"FullHostile", 1, ValueType::kF32, Values::kHostile},
    {"RunsAndBitmaps", 0.997, ValueType::kF32, Values::kHostile},
    {"NearlyFull", 0.98, ValueType::kF32, Values::kCancelling},
    {"ShortBitmaps", 0.93, ValueType::kBF16, Values::kHostile},
    {"OneBitADifference", 1, ValueType::kBF16, Values::kHostile, false, 5},
    {"Bitmaps", 0.6, ValueType::kF32, Values::kHostile},
    {"BitmapsOfSubnormals", 0.5, ValueType::kF32, Values::kSubnormal},
    {"BitmapsBeyondCells", 0.5, ValueType::kF64, Values::kFarApart},
    {"NegativeZeros", 0.7, ValueType::kF16, Values::kNegativeZeros},
    {"Differences", 0.05, ValueType::kF32, Values::kTies},
    {"Integers", 0.7, ValueType::kI64, Values::kNormal},
    {"Repeats", 0.8, ValueType::kF32, Values::kHostile, true},
};

constexpr uint64_t kRows = 30'011;

class PackedUpdatesTest : public UpdatesByDensity {
 protected:
  explicit PackedUpdatesTest(uint64_t num_rows = kRows) : UpdatesByDensity(num_rows, 0, 11) {}

  void ExpectDensePlanAddsThem(uint32_t threads) {
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      const OnlyTarget only(target);
      const auto cpu = *MakeCpuBackend({.threads = threads});
      FillFreeMemoryWithInfinity();
      const auto aggregator = NewAggregator(*cpu, spec_, "dense");
      EXPECT_GE(Accumulate(*aggregator, true), 2);
      EXPECT_EQ(Difference(expected_, std::move(*aggregator).Report()), "")
          << hwy::TargetName(target) << ", threads: " << threads;
    }
  }

  // The state reuses the memory that is freed here, and must not add to the values there.
  void FillFreeMemoryWithInfinity() {
    mallopt(M_MMAP_THRESHOLD, 1 << 30);  // so that free() keeps the memory
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    const HostVector<double> infinite(spec_.layout.num_rows,
                                      std::numeric_limits<double>::infinity());
    const std::vector<HostVector<double>> memory(8, infinite);
  }

  // Returns how many of the updates kept their rows packed.
  int Accumulate(Aggregator& aggregator, bool packed) {
    int kept = 0;
    for (const Update& update : updates_) {
      StagedUpdate staged =
          packed ? StagePackedCopy(aggregator, update) : StageCopy(aggregator, update);
      kept += staged.entries.rows.packed().empty() ? 0 : 1;
      staged.order = OrderOf(update.rows.data(), update.rows.size());
      EXPECT_TRUE(aggregator.Accumulate(std::move(staged), update.weight).ok());
      packed = !packed || std::get<0>(GetParam()).density >= 1;
    }
    return kept;
  }
};

TEST_P(PackedUpdatesTest, ADensePlanAddsThemBlockByBlock) {
  ExpectDensePlanAddsThem(1);
  ExpectDensePlanAddsThem(3);
}

TEST_P(PackedUpdatesTest, OneThatHoldsAQuarterOfTheRowsMakesAStateDense) {
  const auto cpu = *MakeCpuBackend({.threads = 2});
  Plan plan = *MakePlan(spec_, {}, cpu->info(), "sweep");
  plan.forced = false;
  const auto aggregator = *cpu->NewAggregator(plan);
  const bool crowded = updates_[1].rows.size() >= kRows / 4;
  EXPECT_EQ(Accumulate(*aggregator, false) > 0, crowded);
  EXPECT_EQ(aggregator->plan_report().plan == "dense", crowded);
  EXPECT_EQ(Difference(expected_, std::move(*aggregator).Report()), "");
}

TEST_P(PackedUpdatesTest, AForcedPlanGetsRows) {
  const auto cpu = *MakeCpuBackend({.threads = 2});
  const auto aggregator = NewAggregator(*cpu, spec_, "sweep");
  EXPECT_EQ(Accumulate(*aggregator, true), 0);
  EXPECT_EQ(Difference(expected_, std::move(*aggregator).Report()), "");
}

INSTANTIATE_TEST_SUITE_P(All, PackedUpdatesTest,
                         ::testing::Combine(::testing::ValuesIn(kCases),
                                            ::testing::Values("sum", "weighted_mean")),
                         &PackedUpdatesTest::NameOf);

// Slices that are visited piece by piece: a block, or a run of them, ends in a piece that has not
// been visited yet.
class PackedUpdatesOfManyRowsTest : public PackedUpdatesTest {
 protected:
  PackedUpdatesOfManyRowsTest() : PackedUpdatesTest(150'001) {}
};

TEST_P(PackedUpdatesOfManyRowsTest, ADensePlanAddsThemBlockByBlock) { ExpectDensePlanAddsThem(1); }

constexpr DensityCase kManyRowsCases[] = {
    {"Full", 1, ValueType::kF32, Values::kNormal},
    {"RunsAndBitmaps", 0.997, ValueType::kF32, Values::kNormal},
    {"ShortBitmaps", 0.93, ValueType::kF32, Values::kNormal},
    {"OneBitADifference", 1, ValueType::kF32, Values::kNormal, false, 5},
    {"Bitmaps", 0.6, ValueType::kF32, Values::kNormal},
    {"BitmapsOfDoubles", 0.6, ValueType::kF64, Values::kNormal},
    {"Differences", 0.05, ValueType::kF32, Values::kNormal},
};
INSTANTIATE_TEST_SUITE_P(All, PackedUpdatesOfManyRowsTest,
                         ::testing::Combine(::testing::ValuesIn(kManyRowsCases),
                                            ::testing::Values("sum")),
                         &PackedUpdatesTest::NameOf);

// A row may have two entries, also where the second begins the next block: blocks of 256 entries
// that share a row, at every border or at some.
class SharedBorderTest : public ::testing::TestWithParam<std::tuple<uint64_t, uint64_t>> {};

TEST_P(SharedBorderTest, BlocksMayBeginAtTheLastRowOfTheBlockBefore) {
  const auto [without_each, shared_each] = GetParam();
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 8192, 1);
  Update update;
  for (uint64_t row = 0; row < spec.layout.num_rows; ++row) {
    if (without_each != 0 && row % without_each == 0) continue;
    update.rows.push_back(row);
    const uint64_t entries = update.rows.size();
    if (entries % kBlockEntries == 0 && entries / kBlockEntries % shared_each == 0) {
      update.rows.push_back(row);
    }
  }
  std::vector<float> values;
  for (size_t i = 0; i < update.rows.size(); ++i) values.push_back(static_cast<float>(i % 7 + 1));
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  update.values.assign(bytes, bytes + values.size() * sizeof(float));
  const auto reference = *MakeReferenceBackend({});
  const auto expected = Reduce(*reference, spec, {update});
  const auto cpu = *MakeCpuBackend({.threads = 2});
  const auto aggregator = NewAggregator(*cpu, spec, "dense");
  StagedUpdate staged = StagePackedCopy(*aggregator, update);
  ASSERT_FALSE(staged.entries.rows.packed().empty());
  staged.order = EntryOrder::kSorted;
  ASSERT_TRUE(aggregator->Accumulate(std::move(staged), update.weight).ok());
  EXPECT_EQ(Difference(expected, std::move(*aggregator).Report()), "");
}

INSTANTIATE_TEST_SUITE_P(All, SharedBorderTest,
                         ::testing::Combine(::testing::Values(0, 2, 3, 7, 32, 100),
                                            ::testing::Values(1, 2, 3, 100)));

// If the number of rows is not that of the values, for whatever reason, there is no result, and
// never a wrong one.
TEST(PackedUpdatesOfOtherKindsTest, AnUpdateWhoseBitsAreNotItsValuesHasNoResult) {
  for (const ValueType type : {ValueType::kF32, ValueType::kF64, ValueType::kI32}) {
    const ReduceSpec spec = MakeSpec("sum", type, 8192, 1);
    std::mt19937_64 random(3);
    Update update;
    for (uint64_t row = 0; row < 8192; ++row) {
      if (random() % 5 < 3) update.rows.push_back(row);
    }
    update.values = MakeValues(spec, update.rows.size(), Values::kSmall, random);
    const auto cpu = *MakeCpuBackend({.threads = 2});
    const auto aggregator = NewAggregator(*cpu, spec, "dense");
    StagedUpdate staged = StagePackedCopy(*aggregator, update);
    ASSERT_FALSE(staged.entries.rows.packed().empty());
    ASSERT_EQ(PackedRows(staged.entries.view()).block(3).form, kBitmapForm);
    const PackedRows::Block block = PackedRows(staged.entries.view()).block(3);
    char* const rows = staged.entries.rows.packed().data();
    rows[block.words - rows + 4] &= '\x0F';
    staged.order = EntryOrder::kCanonical;
    ASSERT_TRUE(aggregator->Accumulate(std::move(staged), 1).ok());
    const absl::Status status = std::move(*aggregator).Report().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_NE(status.message().find("tensor \"t\": "), std::string::npos) << status;
  }
}

TEST(PackedUpdatesOfOtherKindsTest, RowsOfValuesAndHoldersGetRows) {
  const auto cpu = *MakeCpuBackend({.threads = 2});
  for (const ReduceSpec& spec :
       {MakeSpec("sum", ValueType::kF32, 1000, 4), MakeSpec("max", ValueType::kF32, 1000, 1),
        MakeSpec("mean_of_contributors", ValueType::kF32, 1000, 1),
        MakeSpec("count", ValueType::kF32, 1000, 1)}) {
    const auto aggregator = NewAggregator(*cpu, spec, "dense");
    const StagedUpdate staged = aggregator->StageIncremental(1000, {.packed_bytes = 64}).value();
    EXPECT_TRUE(staged.entries.rows.packed().empty()) << spec.op;
    EXPECT_NE(staged.entries.rows.wide(), nullptr) << spec.op;
  }
}

}  // namespace
}  // namespace sparseagg::testing
