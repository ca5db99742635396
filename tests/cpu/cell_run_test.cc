#include "cpu/windowed/cell_run.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cpu/cpu_backend.h"
#include "cpu/kernels/kernels.h"
#include "sparse/ops/all.h"
#include "sparse/reference_backend.h"
#include "sparse/validate.h"
#include "tests/support/crowd.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {
namespace {

// Returns the canonical form of a partial aggregate: the reference back end's, which is the same
// for the same exact state, however that was reached.
Partial Exactly(const Partial& partial) {
  const auto reference = *MakeReferenceBackend({});
  const auto aggregator = NewAggregator(*reference, partial.spec);
  EXPECT_TRUE(aggregator->Merge(partial).ok());
  return *aggregator->Snapshot();
}

void ExpectSame(const Partial& expected, const Partial& actual, const std::string& what) {
  const Partial a = Exactly(expected);
  const Partial b = Exactly(actual);
  EXPECT_EQ(a.rows, b.rows) << what;
  EXPECT_TRUE(a.slots == b.slots) << what;
  EXPECT_EQ(a.side, b.side) << what;
}

// Returns the run's partial aggregate with the fields that its owner sets.
Partial ToWholePartial(const ReduceSpec& spec, const CellRun& run, const Partial& like) {
  Partial partial = ToPartial(spec, run);
  partial.contributors = like.contributors;
  partial.total_weight = like.total_weight;
  partial.addends = like.addends;
  return partial;
}

class CellRunTest : public ::testing::TestWithParam<std::tuple<std::string_view, ValueType>> {
 protected:
  ReduceSpec Spec(uint32_t width) const {
    const auto [op, type] = GetParam();
    ReduceSpec spec = MakeSpec(std::string(op), type, uint64_t{1} << 50, width);
    // Sums of the largest integers are states like any other.
    if (op == "sum" || op == "min" || op == "max") {
      spec.integer_overflow = IntegerOverflow::kModular;
    }
    return spec;
  }

  static Partial SnapshotOf(Backend& backend, const ReduceSpec& spec, Values values,
                            uint64_t seed) {
    const auto aggregator = NewAggregator(backend, spec);
    const auto updates = MakeCrowd(
        spec,
        {.crowd = Crowd::kZipf, .arrival = Arrival::kRepeated, .entries = 400, .values = values},
        seed);
    for (const Update& update : updates) {
      StagedUpdate staged = StageCopy(*aggregator, update);
      if (!ValidateUpdate(spec, staged.entries.view(), update.weight).ok()) continue;
      EXPECT_TRUE(aggregator->Accumulate(std::move(staged), update.weight).ok());
    }
    return *aggregator->Snapshot();
  }

  const CpuKernels& KernelsOf(const ReduceSpec& spec) const {
    return *KernelsFor(spec.layout.value_type, spec.op);
  }

  std::unique_ptr<Backend> reference_ = *MakeReferenceBackend({});
  std::unique_ptr<Backend> cpu_ = *MakeCpuBackend({.threads = 2});
};

TEST_P(CellRunTest, PartialsThereAndBackKeepEveryBit) {
  uint64_t seed = 1;
  for (uint32_t width : {1u, 5u}) {
    const ReduceSpec spec = Spec(width);
    for (Values values : kAllValues) {
      const std::string what = absl::StrCat("width ", width, " values ", static_cast<int>(values));
      // The reference keeps sums in its side table, this back end in slots where it can.
      const Partial of_reference = SnapshotOf(*reference_, spec, values, seed);
      const Partial of_cpu = SnapshotOf(*cpu_, spec, values, seed);
      ++seed;
      ExpectSame(of_reference, of_cpu, what);
      for (const Partial& partial : {of_reference, of_cpu}) {
        ASSERT_FALSE(partial.rows.empty());
        const CellRun run = FromPartial(spec, partial);
        EXPECT_EQ(run.rows.size(), partial.rows.size());
        EXPECT_EQ(run.values.size(), run.rows.size() * width * KernelsOf(spec).value_bytes);
        EXPECT_EQ(run.row_cells.size(), run.rows.size() * KernelsOf(spec).row_bytes);
        ExpectSame(partial, ToWholePartial(spec, run, partial), what);
      }
    }
  }
}

// |slot| < addends * 2^kWindowValueBits is what merging partials relies on.
TEST_P(CellRunTest, SlotsStayWithinTheirBound) {
  const ReduceSpec spec = Spec(1);
  if (spec.op == "min" || spec.op == "max") return;  // order keys
  for (Values values : kAllValues) {
    const Partial partial = WithSlots(SnapshotOf(*cpu_, spec, values, 3));
    const UInt128 bound = static_cast<UInt128>(partial.addends) << 88;
    for (Int128 slot : partial.slots) {
      const UInt128 magnitude = slot < 0 ? -static_cast<UInt128>(slot) : static_cast<UInt128>(slot);
      EXPECT_TRUE(magnitude < bound) << "values " << static_cast<int>(values);
    }
  }
}

TEST_P(CellRunTest, JoinedRunsAreMergedPartials) {
  uint64_t seed = 100;
  for (uint32_t width : {1u, 5u}) {
    const ReduceSpec spec = Spec(width);
    for (Values values : kAllValues) {
      const Partial a = SnapshotOf(*cpu_, spec, values, seed++);
      const Partial b = SnapshotOf(*reference_, spec, values, seed++);
      const CellRun joined =
          JoinRuns(spec, KernelsOf(spec), FromPartial(spec, a), FromPartial(spec, b));
      for (size_t i = 1; i < joined.rows.size(); ++i) {
        ASSERT_LT(joined.rows[i - 1], joined.rows[i]);
      }
      const Partial merged = MergePartials(a, b);
      ExpectSame(merged, ToWholePartial(spec, joined, merged),
                 absl::StrCat("width ", width, " values ", static_cast<int>(values)));
    }
  }
}

TEST_P(CellRunTest, JoiningNothingChangesNothing) {
  const ReduceSpec spec = Spec(2);
  const Partial partial = SnapshotOf(*cpu_, spec, Values::kHostile, 5);
  const CellRun run = FromPartial(spec, partial);
  for (const CellRun& joined : {JoinRuns(spec, KernelsOf(spec), run, CellRun{}),
                                JoinRuns(spec, KernelsOf(spec), CellRun{}, run)}) {
    ExpectSame(partial, ToWholePartial(spec, joined, partial), "");
  }
  EXPECT_TRUE(JoinRuns(spec, KernelsOf(spec), CellRun{}, CellRun{}).rows.empty());
  EXPECT_TRUE(ToPartial(spec, CellRun{}).rows.empty());
}

INSTANTIATE_TEST_SUITE_P(OperatorsAndTypes, CellRunTest,
                         ::testing::Combine(::testing::ValuesIn(AllOps::kNames),
                                            ::testing::ValuesIn(kAllValueTypes)),
                         [](const auto& info) {
                           return absl::StrCat(std::string(std::get<0>(info.param)), "_",
                                               std::string(ValueTypeName(std::get<1>(info.param))));
                         });

}  // namespace
}  // namespace sparseagg::testing
