// Every instruction set that the kernels are compiled for, and that this machine has, gives the
// bytes of the reference back end.
#include "cpu/kernels/kernels.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "cpu/cpu_backend.h"
#include "cpu/state/instruction_set.h"
#include "sparse/ops/all.h"
#include "sparse/reference_backend.h"
#include "sparse/slot_math.h"
#include "sparse/values.h"
#include "sparse/wide_integer.h"
#include "tests/cpu/only_target.h"
#include "tests/support/crowd.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {
namespace {

constexpr ValueType kFloatingTypes[] = {ValueType::kF16, ValueType::kBF16, ValueType::kF32,
                                        ValueType::kF64};
constexpr uint32_t kRowWidths[] = {1, 3, 64};

TEST(InstructionSets, EachIsTheOneInUseWhenItIsTheOnlyOne) {
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  ASSERT_FALSE(targets.empty());
  const std::string best = InstructionSet();
  std::vector<const CpuKernels*> tables;
  for (int64_t target : targets) {
    const OnlyTarget only(target);
    EXPECT_STREQ(InstructionSet(), hwy::TargetName(target));
    EXPECT_EQ(VectorBytes() == 64, target == HWY_AVX3);
    for (ValueType type : kFloatingTypes) tables.push_back(KernelsFor(type, "sum"));
  }
  std::sort(tables.begin(), tables.end());
  EXPECT_EQ(std::unique(tables.begin(), tables.end()), tables.end())
      << "two instruction sets or types share their kernels";
  EXPECT_EQ(InstructionSet(), best) << "the mocked target is still in effect";
}

TEST(InstructionSets, TheKernelsAreCompiledForMoreThanTheBaseline) {
  const int64_t expected = HWY_ARCH_X86   ? HWY_SSE4 | HWY_AVX2 | HWY_AVX3
                           : HWY_ARCH_ARM ? HWY_NEON
                                          : 0;
  EXPECT_EQ(HWY_TARGETS & expected, expected);
}

TEST(InstructionSets, ThereAreKernelsForEveryOperatorAndType) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const OnlyTarget only(target);
    for (ValueType type : kAllValueTypes) {
      for (std::string_view op : AllOps::kNames) EXPECT_NE(KernelsFor(type, op), nullptr) << op;
      EXPECT_EQ(KernelsFor(type, "no such operator"), nullptr);
    }
  }
}

class InstructionSetTest
    : public ::testing::TestWithParam<std::tuple<std::string_view, ValueType>> {
 protected:
  // All instruction sets x all plans.
  void ExpectSameBytes(const ReduceSpec& spec, const std::vector<Update>& updates,
                       const std::string& what) {
    const auto expected = Reduce(*reference_, spec, updates);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
      const OnlyTarget only(target);
      for (const std::string& plan : PlansFor(*cpu_, spec)) {
        ASSERT_EQ(Difference(expected, Reduce(*cpu_, spec, updates, plan)), "")
            << hwy::TargetName(target) << " " << plan << " " << spec.op << " "
            << ValueTypeName(spec.layout.value_type) << " rows " << spec.layout.num_rows
            << " width " << spec.layout.row_width << " " << what;
      }
    }
  }

  std::unique_ptr<Backend> reference_ = *MakeReferenceBackend({});
  std::unique_ptr<Backend> cpu_ =
      *MakeCpuBackend({.threads = 2, .memory_bytes = uint64_t{1} << 30});
};

TEST_P(InstructionSetTest, EveryKindOfValuesAndWidth) {
  const auto [op, type] = GetParam();
  uint64_t seed = 1;
  for (uint32_t width : kRowWidths) {
    for (Values values : kAllValues) {
      for (uint64_t num_rows : {uint64_t{70}, uint64_t{1} << 40}) {
        for (Distribution distribution : {Distribution::kSorted, Distribution::kZipf}) {
          const ReduceSpec spec = MakeSpec(std::string(op), type, num_rows, width);
          const uint64_t nnz = width == 64 ? 40 : 61;
          const auto updates = MakeUpdates(spec, {nnz, 5, distribution, values}, seed++);
          ExpectSameBytes(spec, updates,
                          absl::StrCat("values ", static_cast<int>(values), " distribution ",
                                       static_cast<int>(distribution)));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Enough entries for windows of each kind, partitions and vectors of neighbouring rows.
TEST_P(InstructionSetTest, ManyWindows) {
  const auto [op, type] = GetParam();
  const struct {
    Crowd crowd;
    Arrival arrival;
    uint64_t num_rows;
  } cases[] = {{Crowd::kRuns, Arrival::kCanonical, uint64_t{1} << 15},
               {Crowd::kRuns, Arrival::kShuffled, uint64_t{1} << 18},
               {Crowd::kZipf, Arrival::kRepeated, uint64_t{1} << 40}};
  uint64_t seed = 1;
  for (const auto& c : cases) {
    for (Values values : {Values::kNormal, Values::kHostile}) {
      const ReduceSpec spec = MakeSpec(std::string(op), type, c.num_rows, 1);
      const auto updates = MakeCrowd(
          spec, {.crowd = c.crowd, .arrival = c.arrival, .entries = 30000, .values = values},
          seed++);
      ASSERT_GT(EntriesOf(updates), uint64_t{20000});
      ExpectSameBytes(spec, updates, absl::StrCat(Name(c.crowd), " ", Name(c.arrival)));
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OperatorsAndTypes, InstructionSetTest,
                         ::testing::Combine(::testing::ValuesIn(AllOps::kNames),
                                            ::testing::ValuesIn(kFloatingTypes)),
                         [](const auto& info) {
                           return absl::StrCat(std::string(std::get<0>(info.param)), "_",
                                               std::string(ValueTypeName(std::get<1>(info.param))));
                         });

// Entries of one cursor with a weight each, as a partition may have them: the sum of each row, cell
// and side entries together, is exact.
template <class V>
void ScatterWithWeights(bool canonical) {
  constexpr uint64_t kBegin = uint64_t{1} << 33;
  constexpr size_t kRows = 64;
  constexpr size_t kEntries = 61;  // not a whole number of vectors
  std::mt19937_64 random(3);
  const ReduceSpec spec = MakeSpec("mean_of_contributors", ValueTraits<V>::kType, kBegin * 2, 1);
  for (Values kind : kAllValues) {
    const CpuKernels& kernels = *KernelsFor(ValueTraits<V>::kType, spec.op);
    HostVector<std::byte> values(kRows * kernels.value_bytes);
    HostVector<std::byte> row_cells(kRows * kernels.row_bytes);
    const CellWindow window{kBegin, values.data(), row_cells.data()};
    kernels.clear(window, kRows, 1);
    std::vector<WideInteger> sums(kRows);
    std::vector<WideInteger> holders(kRows);
    SideTable side;
    for (int update = 0; update < 20; ++update) {
      std::vector<uint64_t> rows;
      std::vector<float> weights;
      const std::vector<std::byte> bytes = MakeValues(spec, kEntries, kind, random);
      for (size_t i = 0; i < kEntries; ++i) {
        rows.push_back(kBegin + (canonical ? i : random() % kRows));
        weights.push_back(std::ldexp(1.0f + 0x1p-23f * (random() % 3), -(random() % 4)));
        V value;
        std::memcpy(&value, bytes.data() + i * sizeof(V), sizeof(V));
        sums[rows[i] - kBegin].Add(Lift(value, weights[i]));
        // The sign bit says that the contributor holds the row already.
        const bool again = random() % 4 == 0;
        if (!again) holders[rows[i] - kBegin].Add(weights[i]);
        if (again) weights[i] = -weights[i];
      }
      Cursor cursor{.row = rows.data(),
                    .end = rows.data() + rows.size(),
                    .value = bytes.data(),
                    .weights = weights.data(),
                    .canonical = canonical};
      kernels.scatter({&cursor, 1}, ~uint64_t{0}, {}, window, side);
      EXPECT_EQ(cursor.size(), 0u);
      EXPECT_EQ(cursor.weights, weights.data() + kEntries);
      EXPECT_EQ(cursor.value, bytes.data() + bytes.size());
    }
    const auto* cells = reinterpret_cast<const double*>(values.data());
    const auto* holder_cells = reinterpret_cast<const double*>(row_cells.data());
    std::vector<WideInteger> got(2 * kRows);
    for (size_t row = 0; row < kRows; ++row) {
      got[2 * row].Add(cells[row]);
      got[2 * row + 1].Add(holder_cells[row]);
    }
    for (const SideEntry& entry : side.Drain()) {
      got[2 * (entry.row - kBegin) + entry.column].AddScaled(entry.significand, entry.exponent);
    }
    for (size_t row = 0; row < kRows; ++row) {
      EXPECT_EQ(got[2 * row], sums[row]) << row << " values " << static_cast<int>(kind);
      EXPECT_EQ(got[2 * row + 1], holders[row]) << row;
    }
  }
}

TEST(InstructionSets, EntriesWithAWeightEachAreSummedExactly) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const OnlyTarget only(target);
    SCOPED_TRACE(hwy::TargetName(target));
    for (bool canonical : {false, true}) {
      ScatterWithWeights<F16>(canonical);
      ScatterWithWeights<BF16>(canonical);
      ScatterWithWeights<float>(canonical);
      ScatterWithWeights<double>(canonical);
    }
  }
}

// A product of f64 that is rounded to zero is +0: a cell that is -0 is not held.
TEST(InstructionSets, NegativeProductsBelowTheSmallestNumberAreHeld) {
  const auto reference = *MakeReferenceBackend({});
  const auto cpu = *MakeCpuBackend({.threads = 1});
  for (uint32_t width : {1u, 8u}) {
    const ReduceSpec spec = MakeSpec("sum", ValueType::kF64, 100, width);
    Update update{.weight = 0.25f, .rows = {}, .values = {}};
    for (uint64_t row = 0; row < 40; ++row) update.rows.push_back(row);
    const std::vector<double> values(update.rows.size() * width, -0x1p-1074);
    update.values.resize(values.size() * sizeof(double));
    std::memcpy(update.values.data(), values.data(), update.values.size());
    const auto expected = Reduce(*reference, spec, {update, update});
    ASSERT_EQ(expected->tensor.nnz(), 40u);
    for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
      const OnlyTarget only(target);
      for (const std::string& plan : cpu->info().plans) {
        EXPECT_EQ(Difference(expected, Reduce(*cpu, spec, {update, update}, plan)), "")
            << hwy::TargetName(target) << " " << plan << " width " << width;
      }
    }
  }
}

}  // namespace
}  // namespace sparseagg::testing
