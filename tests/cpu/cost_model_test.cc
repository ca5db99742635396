#include "cpu/cost_model.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <utility>

#include "cpu/cpu_backend.h"
#include "cpu/plan_table.h"
#include "tests/cpu/only_target.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

using testing::MakeSpec;

// Returns the plan that the planner chooses for two threads and 8 GiB.
Plan Choose(const ReduceSpec& spec, const Workload& workload) {
  const auto backend = *MakeCpuBackend({.threads = 2, .memory_bytes = uint64_t{8} << 30});
  return MakePlan(spec, workload, backend->info()).value();
}

ReduceSpec Scalars(uint64_t num_rows) { return MakeSpec("sum", ValueType::kF32, num_rows, 1); }

Workload Load(uint64_t contributors, uint64_t nnz, EntryOrder order) {
  return {.contributors = contributors, .nnz_per_update = nnz, .order = order, .at_once = true};
}

TEST(CpuCost, SortedUpdatesAreSweptUnsortedOnesPartitioned) {
  EXPECT_EQ(Choose(Scalars(100'000'000), Load(1000, 100'000, EntryOrder::kCanonical)).name,
            "sweep");
  EXPECT_EQ(Choose(Scalars(100'000'000), Load(1000, 100'000, EntryOrder::kUnsorted)).name,
            "partition");
}

TEST(CpuCost, VeryManySmallUpdatesArePartitionedThoughSorted) {
  EXPECT_EQ(Choose(Scalars(100'000'000), Load(100'000, 100, EntryOrder::kCanonical)).name,
            "partition");
}

TEST(CpuCost, WideRowsHaveTheirOwnPlan) {
  EXPECT_EQ(Choose(MakeSpec("sum", ValueType::kF32, 1'000'000, 64),
                   Load(100, 10'000, EntryOrder::kCanonical))
                .name,
            "rows");
}

TEST(CpuCost, DenseTensorsAreDenseWhileTheyFit) {
  EXPECT_EQ(Choose(MakeSpec("sum", ValueType::kF32, 1, 100'000'000), {}).name, "dense");
  EXPECT_NE(Choose(MakeSpec("sum", ValueType::kF32, 1, 2'000'000'000), {}).name, "dense");
}

TEST(CpuCost, AnIndexSpaceBeyondMemoryIsNeverDense) {
  const auto backend = *MakeCpuBackend({.threads = 2});
  const PlanCost cost = CpuCost(backend->info(), "dense", Scalars(uint64_t{1} << 62), {});
  EXPECT_EQ(cost.fixed_bytes, uint64_t{1} << 63);
}

TEST(CpuCost, GrowsWithTheEntriesAndShrinksWithThreads) {
  BackendInfo info = (*MakeCpuBackend({.threads = 1}))->info();
  const Workload small = Load(100, 100'000, EntryOrder::kUnsorted);
  const Workload large = Load(100, 1'000'000, EntryOrder::kUnsorted);
  for (const std::string& plan : info.plans) {
    info.threads = 1;
    const double one = CpuCost(info, plan, Scalars(10'000'000), small).seconds;
    EXPECT_GT(one, 0) << plan;
    EXPECT_GT(CpuCost(info, plan, Scalars(10'000'000), large).seconds, 2 * one) << plan;
    info.threads = 2;
    EXPECT_LT(CpuCost(info, plan, Scalars(10'000'000), small).seconds, 0.7 * one) << plan;
  }
}

TEST(CpuCost, ReducingInBatchesCostsMoreThanAtOnce) {
  const auto backend = *MakeCpuBackend({.threads = 2});
  Workload workload = Load(1000, 100'000, EntryOrder::kCanonical);
  const double at_once = CpuCost(backend->info(), "sweep", Scalars(100'000'000), workload).seconds;
  workload.at_once = false;
  EXPECT_GT(CpuCost(backend->info(), "sweep", Scalars(100'000'000), workload).seconds, at_once);
}

// A machine without AVX-512 takes longer to sort a window, but not longer for a dense window.
TEST(CpuCost, KnowsHowFastTheMachineSorts) {
  const auto backend = *MakeCpuBackend({.threads = 1});
  const Workload load = Load(100, 100'000, EntryOrder::kCanonical);
  const auto ns_an_entry = [&](uint64_t num_rows) {
    return CpuCost(backend->info(), "sweep", Scalars(num_rows), load).seconds * 1e9 / 1e7;
  };
  const double dense = ns_an_entry(1'000'000);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    const testing::OnlyTarget only(target);
    const double sort = target == HWY_AVX3 ? kCpuCosts.sort : kCpuCosts.short_sort;
    const double sparse = ns_an_entry(uint64_t{1} << 40);
    EXPECT_GT(sparse, sort);
    EXPECT_LT(sparse, sort + 2);
    EXPECT_EQ(ns_an_entry(1'000'000), dense);
  }
}

// The report of a reduction has a prediction and a measurement of it.
TEST(CpuCost, IsReportedBesideTheTimeTaken) {
  const auto backend = *MakeCpuBackend({.threads = 2});
  const ReduceSpec spec = Scalars(1'000'000);
  const auto aggregator = testing::NewAggregator(*backend, spec);
  EXPECT_EQ(aggregator->plan_report().seconds, 0);
  for (const testing::Update& update : testing::MakeUpdates(
           spec, {.nnz = 1000, .contributors = 5, .distribution = testing::Distribution::kSorted},
           7)) {
    ASSERT_TRUE(
        aggregator->Accumulate(testing::StageCopy(*aggregator, update), update.weight).ok());
  }
  ASSERT_TRUE(std::move(*aggregator).Report().ok());
  const PlanReport report = aggregator->plan_report();
  EXPECT_GT(report.seconds, 0);
  EXPECT_GT(report.predicted_seconds, 0);
  EXPECT_FALSE(report.plan.empty());
  EXPECT_FALSE(report.reason.empty());
}

// The reason of a plan does not list that plan among those that were not chosen.
TEST(CpuCost, AReportWhoseUpdatesAreOtherThanPlannedSaysSo) {
  const auto backend = *MakeCpuBackend({.threads = 2});
  const ReduceSpec spec = Scalars(100'000'000);
  const Workload sorted = Load(3, 100'000, EntryOrder::kCanonical);
  const auto aggregator = *backend->NewAggregator(*MakePlan(spec, sorted, backend->info()));
  EXPECT_EQ(aggregator->plan_report().plan, "sweep");
  for (const testing::Update& update :
       testing::MakeUpdates(spec, {.nnz = 100'000, .contributors = 3}, 7)) {
    ASSERT_TRUE(
        aggregator->Accumulate(testing::StageCopy(*aggregator, update), update.weight).ok());
  }
  ASSERT_TRUE(std::move(*aggregator).Report().ok());
  const PlanReport report = aggregator->plan_report();
  EXPECT_EQ(report.plan, "partition");
  EXPECT_EQ(report.reason, "cheaper than sweep for the updates as they are");
}

// Every step that is measured has a prediction: making the result takes time, even from an empty
// state.
TEST(CpuCost, AReportIsPredictedWithoutPendingUpdates) {
  const auto backend = *MakeCpuBackend({.threads = 2});
  const ReduceSpec spec = Scalars(100'000'000);
  const auto predicted_for_none = [&](const ReduceSpec& of, std::string_view forced) {
    const auto empty = *backend->NewAggregator(*MakePlan(of, {}, backend->info(), forced));
    EXPECT_TRUE(std::move(*empty).Report().ok());
    return empty->plan_report().predicted_seconds;
  };
  EXPECT_GT(predicted_for_none(spec, "sweep"), 0);
  EXPECT_LT(predicted_for_none(Scalars(100'000'000), "dense"),
            5 * predicted_for_none(Scalars(1'000'000), "dense"))
      << "slices without rows must not be scanned";
  // All updates are folded before the report.
  const Workload load = Load(5, 40'000, EntryOrder::kUnsorted);
  const auto folded = *backend->NewAggregator(*MakePlan(spec, load, backend->info()));
  for (const testing::Update& update :
       testing::MakeUpdates(spec, {.nnz = 40'000, .contributors = 5}, 7)) {
    StagedUpdate staged = testing::StageCopy(*folded, update);
    staged.order = EntryOrder::kUnsorted;
    ASSERT_TRUE(folded->Accumulate(std::move(staged), update.weight).ok());
  }
  ASSERT_TRUE(folded->Snapshot().ok());
  const PlanReport before = folded->plan_report();
  EXPECT_EQ(before.plan, "partition");
  EXPECT_GT(before.predicted_seconds, 0);
  ASSERT_TRUE(std::move(*folded).Report().ok());
  const PlanReport after = folded->plan_report();
  EXPECT_EQ(after.plan, "partition");
  EXPECT_GT(after.predicted_seconds, before.predicted_seconds);
  EXPECT_GT(after.seconds, before.seconds);
}

// The same for a dense state: every slice that holds rows is scanned.
TEST(CpuCost, TheReportOfADenseStateIsPredicted) {
  const auto backend = *MakeCpuBackend({.threads = 2});
  const ReduceSpec spec = Scalars(10'000'000);
  const auto folded = *backend->NewAggregator(*MakePlan(spec, {}, backend->info(), "dense"));
  testing::Update update;
  for (uint64_t row = 0; row < spec.layout.num_rows; row += 4096) update.rows.push_back(row);
  update.values.resize(update.rows.size() * sizeof(float));
  ASSERT_TRUE(folded->Accumulate(testing::StageCopy(*folded, update), 1).ok());
  ASSERT_TRUE(folded->Snapshot().ok());
  const double fold = folded->plan_report().predicted_seconds;
  ASSERT_TRUE(std::move(*folded).Report().ok());
  const double report = folded->plan_report().predicted_seconds - fold;
  // With few entries, clearing and scanning the cells takes the time.
  EXPECT_NEAR(report / fold, 1, 0.2);
}

TEST(CpuCost, TheStepsOfADenseRoundAddUpToTheWhole) {
  const auto backend = *MakeCpuBackend({.threads = 2});
  for (const uint32_t width : {1, 64}) {
    const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 1'000'000, width);
    const double whole =
        CpuCost(backend->info(), "dense", spec, Load(10, 5000, EntryOrder::kCanonical)).seconds;
    const Workload half = Load(5, 5000, EntryOrder::kCanonical);
    const auto step = [&](const Workload& workload, uint64_t before, DenseStep what) {
      return DenseStepSeconds(backend->info(), spec, workload, before, what);
    };
    const double first = step(half, 0, DenseStep::kFold);
    const double second = step(half, 25'000, DenseStep::kFold);
    EXPECT_LT(second, first) << "the slices are already cleared";
    EXPECT_NEAR(first + second + step({}, 50'000, DenseStep::kReport), whole, 0.05 * whole);
    EXPECT_NEAR(first + step(half, 25'000, DenseStep::kReport), whole, 0.05 * whole);
  }
}

}  // namespace
}  // namespace sparseagg
