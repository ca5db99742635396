// Results of the dense plan in which every row has a value: they equal the reference's and list no
// rows. And results in which one row is missing, at various places.
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "sparse/reference_backend.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {
namespace {

constexpr uint64_t kNone = ~uint64_t{0};

// One update with all rows but `missing`, and one with the even ones of these.
std::vector<Update> CrowdedUpdates(const ReduceSpec& spec, Values kind, uint64_t missing) {
  std::mt19937_64 random(spec.layout.num_rows + spec.layout.row_width);
  std::vector<Update> updates(2);
  for (uint64_t row = 0; row < spec.layout.num_rows; ++row) {
    if (row == missing) continue;
    updates[0].rows.push_back(row);
    if (row % 2 == 0) updates[1].rows.push_back(row);
  }
  for (Update& update : updates) {
    update.weight = MakeWeight(spec, kind, random);
    update.values = MakeValues(spec, update.rows.size() * spec.layout.row_width, kind, random);
  }
  return updates;
}

// Returns "" if the dense plan's result is the reference's and lists rows only if it must;
// otherwise the difference.
std::string Compare(const ReduceSpec& spec, Values kind, uint64_t missing) {
  const std::vector<Update> updates = CrowdedUpdates(spec, kind, missing);
  const auto reference = *MakeReferenceBackend({});
  const auto expected = Reduce(*reference, spec, updates);
  for (const uint32_t threads : {1, 3}) {
    const auto cpu = *MakeCpuBackend({.threads = threads});
    const auto actual = Reduce(*cpu, spec, updates, "dense");
    const std::string difference = Difference(expected, actual);
    if (!difference.empty()) return difference;
    if (!actual.ok()) continue;
    if (actual->tensor.indices.kept().empty() != (missing == kNone)) return "rows are listed";
  }
  return "";
}

TEST(EveryRowTest, IsNotListed) {
  for (const auto& [num_rows, width] :
       {std::pair{1000u, 1u}, {150'000u, 1u}, {40u, 1u}, {3000u, 3u}, {600u, 64u}}) {
    for (const char* op : {"sum", "weighted_mean", "mean_of_contributors", "min", "max", "count"}) {
      for (const ValueType type : {ValueType::kF32, ValueType::kF64, ValueType::kI32}) {
        const ReduceSpec spec = MakeSpec(op, type, num_rows, width);
        EXPECT_EQ(Compare(spec, Values::kCancelling, kNone), "")
            << op << " " << ValueTypeName(type) << " " << num_rows << " x " << width;
      }
    }
  }
}

TEST(EveryRowTest, KeepsSideEntries) {
  for (const uint32_t width : {1, 5}) {
    for (const Values kind : {Values::kHostile, Values::kFarApart, Values::kOverflowing}) {
      for (const ValueType type : {ValueType::kF32, ValueType::kF64}) {
        EXPECT_EQ(Compare(MakeSpec("sum", type, 50'000, width), kind, kNone), "");
      }
    }
  }
}

TEST(EveryRowTest, AnIntegerThatDoesNotFitIsTheFirstOne) {
  EXPECT_EQ(Compare(MakeSpec("sum", ValueType::kI32, 50'000, 1), Values::kOverflowing, kNone), "");
}

TEST(EveryRowTest, AMissingRowMakesTheResultListItsRows) {
  constexpr uint64_t kRows = 300'000;  // several slices
  for (const uint64_t missing :
       {uint64_t{0}, uint64_t{1}, uint64_t{1} << 16, kRows / 2, kRows - 2, kRows - 1}) {
    for (const char* op : {"sum", "count"}) {
      EXPECT_EQ(Compare(MakeSpec(op, ValueType::kF32, kRows, 1), Values::kNormal, missing), "")
          << op << " without row " << missing;
    }
  }
}

TEST(EveryRowTest, AnEmptyRoundHasNone) {
  const auto cpu = *MakeCpuBackend({.threads = 2});
  for (const uint64_t num_rows : {1, 100'000}) {
    const auto result = Reduce(*cpu, MakeSpec("sum", ValueType::kF32, num_rows, 1), {}, "dense");
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->tensor.nnz(), 0u);
  }
}

}  // namespace
}  // namespace sparseagg::testing
