// Results so large that they are written with non-temporal stores have the bytes of the reference,
// for every plan and operator, and wherever the outputs of two threads meet.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "cpu/state/tuning.h"
#include "sparse/reference_backend.h"
#include "tests/support/sanitizer.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {
namespace {

// Two updates that share every other row of the first: rows `step` or fewer apart.
std::vector<Update> LargeUpdates(const ReduceSpec& spec, uint64_t rows, uint64_t step) {
  std::mt19937_64 random(rows + step);
  std::vector<Update> updates(2);
  uint64_t row = 0;
  for (uint64_t i = 0; i < rows; ++i) {
    updates[0].rows.push_back(row);
    if (i % 2 == 0) updates[1].rows.push_back(row);
    row += step == 1 ? 1 : 1 + random() % step;
  }
  for (Update& update : updates) {
    update.weight = MakeWeight(spec, Values::kNormal, random);
    update.values =
        MakeValues(spec, update.rows.size() * spec.layout.row_width, Values::kNormal, random);
  }
  return updates;
}

struct Case {
  const char* name;
  const char* op;
  ValueType type;
  uint64_t rows;
  uint32_t width;
  uint64_t step;  // 1: every row is held
};

constexpr Case kCases[] = {
    {"Singles", "sum", ValueType::kF32, 1'500'000, 1, 3},
    {"SinglesFarApart", "sum", ValueType::kF32, 1'500'000, 1, 1'000'000},
    {"Doubles", "weighted_mean", ValueType::kF64, 1'100'000, 1, 50},
    {"Halves", "sum", ValueType::kF16, 1'800'000, 1, 3},
    {"EveryRow", "sum", ValueType::kF32, 1'500'000, 1, 1},
    {"Rows", "sum", ValueType::kF32, 70'000, 64, 2},
    {"RowsThatEndWithinLines", "weighted_mean", ValueType::kF32, 230'000, 17, 4},
    {"RowsOfIntegers", "sum", ValueType::kI32, 300'000, 13, 1'000},
    {"RowsOfTheirHolders", "mean_of_contributors", ValueType::kF32, 900'000, 3, 3},
    {"Counts", "count", ValueType::kF32, 1'300'000, 1, 3},
};

class LargeResultsTest : public ::testing::TestWithParam<Case> {};

TEST_P(LargeResultsTest, HaveTheBytesOfTheReference) {
  const Case& c = GetParam();
  // ThreadSanitizer does not see non-temporal stores, and its shadow of this memory takes 20 GB.
  const uint64_t rows = FewerUnderTsan(c.rows);
  const uint64_t num_rows = c.step == 1 ? rows : rows * c.step;
  const ReduceSpec spec = MakeSpec(c.op, c.type, num_rows, c.width);
  const std::vector<Update> updates = LargeUpdates(spec, rows, c.step);
  const auto reference = *MakeReferenceBackend({});
  const auto expected = Reduce(*reference, spec, updates);
  ASSERT_TRUE(expected.ok()) << expected.status();
  if (!kThreadSanitizer) {
    ASSERT_GE(rows * (sizeof(uint64_t) + ResultLayout(spec).row_bytes()), kStreamedResultsMin)
        << "not written with non-temporal stores";
  }
  for (const uint32_t threads : {1, 3}) {
    const auto cpu = *MakeCpuBackend({.threads = threads, .memory_bytes = uint64_t{1} << 30});
    for (const std::string& plan : PlansFor(*cpu, spec)) {
      EXPECT_EQ(Difference(expected, Reduce(*cpu, spec, updates, plan)), "")
          << plan << " with " << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Results, LargeResultsTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sparseagg::testing
