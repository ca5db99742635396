// What the model makes the planner choose for one H200 (docs/decisions/0009-gpu-plans.md has the
// predictions). Pure.
#include "cuda/cost_model.h"

#include <gtest/gtest.h>

#include <string>

#include "cuda/plan.h"
#include "tests/support/workload.h"

namespace sparseagg::gpu {
namespace {

using sparseagg::testing::MakeSpec;

BackendInfo H200(DeviceRates rates = {}) {
  BackendInfo info{.name = "cuda", .memory_bytes = uint64_t{100} << 30};
  for (const DevicePlan& row : DevicePlans()) info.plans.emplace_back(row.name);
  info.cost = [rates](const BackendInfo&, std::string_view plan, const ReduceSpec& spec,
                      const Workload& workload) { return CudaCost(rates, plan, spec, workload); };
  return info;
}

Workload Load(uint64_t contributors, uint64_t nnz, EntryOrder order) {
  return {.contributors = contributors, .nnz_per_update = nnz, .order = order, .at_once = true};
}

std::string Choose(const ReduceSpec& spec, const Workload& workload) {
  return MakePlan(spec, workload, H200()).value().name;
}

ReduceSpec Scalars(uint64_t num_rows) { return MakeSpec("sum", ValueType::kF32, num_rows, 1); }

TEST(CudaCost, SortedUpdatesAreMergedByTiles) {
  EXPECT_EQ(Choose(Scalars(1'000'000'000), Load(100, 1'000'000, EntryOrder::kCanonical)),
            "tile_merge");
}

TEST(CudaCost, UnsortedOnesInALargeIndexSpaceAreSorted) {
  EXPECT_EQ(Choose(Scalars(100'000'000'000), Load(100, 1'000'000, EntryOrder::kUnsorted)),
            "radix_segments");
}

TEST(CudaCost, UnsortedOnesInASmallIndexSpaceAreScattered) {
  EXPECT_EQ(Choose(Scalars(1'000'000), Load(100, 1'000'000, EntryOrder::kUnsorted)),
            "dense_accumulate");
}

TEST(CudaCost, OneEntryForEachRowPaysForADenseState) {
  for (const EntryOrder order : {EntryOrder::kCanonical, EntryOrder::kUnsorted}) {
    EXPECT_EQ(Choose(Scalars(1'000'000), Load(8, 125'000, order)), "dense_accumulate");
    EXPECT_NE(Choose(Scalars(1'000'000), Load(8, 50'000, order)), "dense_accumulate");
  }
}

TEST(CudaCost, WideRowsHaveTheirOwnPlan) {
  EXPECT_EQ(Choose(MakeSpec("sum", ValueType::kF32, uint64_t{1} << 40, 64),
                   Load(100, 100'000, EntryOrder::kUnsorted)),
            "row_reduce");
}

TEST(CudaCost, AnIndexSpaceBeyondMemoryIsNeverScattered) {
  const ReduceSpec spec = Scalars(uint64_t{1} << 62);
  for (const char* plan : {"dense_accumulate", "cusparse_dense"}) {
    EXPECT_EQ(CudaCost({}, plan, spec, {}).fixed_bytes, uint64_t{1} << 63) << plan;
    EXPECT_NE(Choose(spec, {}), plan);
  }
}

TEST(CudaCost, ThrustAndCusparseAreNeverTheFastest) {
  for (const uint64_t rows : {uint64_t{1000}, uint64_t{1} << 30, uint64_t{1} << 50}) {
    for (const uint64_t nnz : {10, 1000, 1'000'000}) {
      for (const EntryOrder order : {EntryOrder::kCanonical, EntryOrder::kUnsorted}) {
        const std::string chosen = Choose(Scalars(rows), Load(50, nnz, order));
        for (const char* plan : {"thrust_sort_reduce", "cusparse_spmm", "cusparse_dense"}) {
          EXPECT_NE(chosen, plan) << rows << " rows, " << nnz;
        }
      }
    }
  }
}

TEST(CudaCost, IsThatOfTheBusWhereReductionsAreFaster) {
  const Workload workload = Load(100, 1'000'000, EntryOrder::kCanonical);
  const double seconds = CudaCost({}, "tile_merge", Scalars(1'000'000'000), workload).seconds;
  const double bus = 1e8 * 12 / DeviceRates().bus_bytes;
  EXPECT_GT(seconds, bus);  // and the result comes back
  DeviceRates twice;
  twice.bus_bytes *= 2;
  twice.bus_back_bytes *= 2;
  EXPECT_LT(CudaCost(twice, "tile_merge", Scalars(1'000'000'000), workload).seconds, 0.6 * seconds);
}

TEST(CudaCost, GrowsWithTheEntries) {
  for (const DevicePlan& row : DevicePlans()) {
    const auto seconds = [&](uint64_t nnz) {
      return CudaCost({}, row.name, Scalars(1 << 28), Load(100, nnz, EntryOrder::kUnsorted))
          .seconds;
    };
    EXPECT_GT(seconds(1000), 0) << row.name;
    EXPECT_GT(seconds(1'000'000), 5 * seconds(100'000)) << row.name;
  }
}

}  // namespace
}  // namespace sparseagg::gpu
