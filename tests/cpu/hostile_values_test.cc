// Values that are made to break sums: every plan gives the bytes of the reference, also when it
// continues from a snapshot, and the size of the side table stays bounded.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "cpu/cpu_backend.h"
#include "sparse/reference_backend.h"
#include "sparse/values.h"
#include "sparse/wide_integer.h"
#include "tests/support/crowd.h"
#include "tests/support/workload.h"

namespace sparseagg::testing {
namespace {

constexpr ValueType kFloatingTypes[] = {ValueType::kF16, ValueType::kBF16, ValueType::kF32,
                                        ValueType::kF64};

std::unique_ptr<Backend> NewCpu() {
  return *MakeCpuBackend({.threads = 3, .memory_bytes = uint64_t{1} << 30});
}

class HostileValuesTest
    : public ::testing::TestWithParam<std::tuple<std::string_view, ValueType, Values>> {
 protected:
  void ExpectSameBytes(const ReduceSpec& spec, const std::vector<Update>& updates) {
    const auto expected = Reduce(*reference_, spec, updates);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (const std::string& plan : PlansFor(*cpu_, spec)) {
      EXPECT_EQ(Difference(expected, Reduce(*cpu_, spec, updates, plan)), "") << plan;
      const auto aggregator = NewAggregator(*cpu_, spec, plan);
      for (size_t u = 0; u < updates.size(); ++u) {
        ASSERT_TRUE(
            aggregator->Accumulate(StageCopy(*aggregator, updates[u]), updates[u].weight).ok());
        ASSERT_TRUE(u % 2 == 1 || aggregator->Snapshot().ok());
      }
      EXPECT_EQ(Difference(expected, std::move(*aggregator).Report()), "") << plan << ", folded";
    }
  }

  std::unique_ptr<Backend> reference_ = *MakeReferenceBackend({});
  std::unique_ptr<Backend> cpu_ = NewCpu();
};

TEST_P(HostileValuesTest, GiveTheBytesOfTheReference) {
  const auto& [op, type, values] = GetParam();
  const struct {
    Crowd crowd;
    Arrival arrival;
    uint64_t num_rows;
    uint64_t entries;
    uint32_t width;
  } cases[] = {{Crowd::kRuns, Arrival::kCanonical, 6000, 20'000, 1},
               {Crowd::kHotRow, Arrival::kRepeated, uint64_t{1} << 40, 18'000, 1},
               {Crowd::kOneRow, Arrival::kSorted, 5, 18'000, 1},
               {Crowd::kZipf, Arrival::kSorted, uint64_t{1} << 40, 2000, 17}};
  uint64_t seed = 1;
  for (const auto& c : cases) {
    const ReduceSpec spec = MakeSpec(std::string(op), type, c.num_rows, c.width);
    SCOPED_TRACE(absl::StrCat(Name(c.crowd), " ", Name(c.arrival), " width ", c.width));
    ExpectSameBytes(spec, MakeCrowd(spec,
                                    {.crowd = c.crowd,
                                     .arrival = c.arrival,
                                     .entries = c.entries,
                                     .contributors = 5,
                                     .values = values},
                                    seed++));
  }
}

INSTANTIATE_TEST_SUITE_P(Everything, HostileValuesTest,
                         ::testing::Combine(::testing::Values("sum", "mean_of_contributors", "max"),
                                            ::testing::ValuesIn(kFloatingTypes),
                                            ::testing::ValuesIn(kAllValues)),
                         [](const auto& info) {
                           return absl::StrCat(std::string(std::get<0>(info.param)), "_",
                                               std::string(ValueTypeName(std::get<1>(info.param))),
                                               "_", static_cast<int>(std::get<2>(info.param)));
                         });

// One update for each value; all rows of all updates get it.
template <class V>
std::vector<Update> OneValueEach(const std::vector<double>& values, uint64_t rows) {
  std::vector<Update> updates;
  for (double value : values) {
    Update& update = updates.emplace_back();
    const V narrow = ValueTraits<V>::Narrow(value);
    update.values.resize(rows * sizeof(V));
    for (uint64_t row = 0; row < rows; ++row) {
      update.rows.push_back(row);
      std::memcpy(update.values.data() + row * sizeof(V), &narrow, sizeof(V));
    }
  }
  return updates;
}

template <class V>
double ValueAt(const SparseTensor& tensor, uint64_t i) {
  V value;
  std::memcpy(&value, tensor.values.data() + i * sizeof(V), sizeof(V));
  return Widen(value);
}

template <class V>
class ExtremeSums : public ::testing::Test {
 protected:
  static constexpr uint64_t kRows = 29;  // whole vectors and a rest

  // Expects the sum of the values in every row, by every plan, at once and folded one by one.
  void ExpectSum(const std::vector<double>& values, double expected) {
    const ReduceSpec spec = MakeSpec("sum", ValueTraits<V>::kType, 1000, 1);
    const std::vector<Update> updates = OneValueEach<V>(values, kRows);
    for (const std::string& plan : cpu_->info().plans) {
      for (bool fold : {false, true}) {
        const auto aggregator = NewAggregator(*cpu_, spec, plan);
        for (const Update& update : updates) {
          ASSERT_TRUE(aggregator->Accumulate(StageCopy(*aggregator, update), 1.0f).ok());
          ASSERT_TRUE(!fold || aggregator->Snapshot().ok());
        }
        const auto result = std::move(*aggregator).Report();
        ASSERT_TRUE(result.ok()) << result.status();
        ASSERT_EQ(result->tensor.nnz(), kRows);
        EXPECT_EQ(result->infinite_values, std::isinf(expected) ? kRows : 0) << plan;
        for (uint64_t row = 0; row < kRows; ++row) {
          const double value = ValueAt<V>(result->tensor, row);
          ASSERT_EQ(value, expected) << plan << " row " << row;
          ASSERT_EQ(std::signbit(value), std::signbit(expected)) << plan << " row " << row;
        }
      }
    }
  }

  std::unique_ptr<Backend> cpu_ = NewCpu();
};
using FloatingTypes = ::testing::Types<F16, BF16, float, double>;
TYPED_TEST_SUITE(ExtremeSums, FloatingTypes);

TYPED_TEST(ExtremeSums, LeaveTheRangeAndComeBack) {
  constexpr FloatFormat kFormat = ValueTraits<TypeParam>::kFormat;
  const double largest =
      std::ldexp(2.0 - std::ldexp(1.0, 1 - kFormat.precision), kFormat.max_exponent);
  const double infinity = std::numeric_limits<double>::infinity();
  this->ExpectSum({largest, largest}, infinity);
  this->ExpectSum({-largest, -largest, -largest}, -infinity);
  this->ExpectSum({largest, largest, largest, -largest, -largest}, largest);
  this->ExpectSum({largest, largest, -largest, -largest}, 0.0);
  const double least = std::ldexp(1.0, kFormat.min_exponent);
  this->ExpectSum({largest, -least, largest, -largest, -largest}, -least);
  // Half a last bit more is a tie to the number beyond; the least bit less is none.
  const double half = std::ldexp(1.0, kFormat.max_exponent - kFormat.precision);
  this->ExpectSum({largest, half}, infinity);
  this->ExpectSum({largest, half, -least}, largest);
}

TYPED_TEST(ExtremeSums, OfZerosArePositive) {
  this->ExpectSum({-0.0}, 0.0);
  this->ExpectSum({-0.0, -0.0, -0.0}, 0.0);
  this->ExpectSum({-0.0, 0.0}, 0.0);
  this->ExpectSum({1.0, -0.0, -1.0}, 0.0);
  this->ExpectSum({-0.0, -1.0}, -1.0);
}

TYPED_TEST(ExtremeSums, OfTheSmallestNumbersAreExact) {
  const double least = std::ldexp(1.0, ValueTraits<TypeParam>::kFormat.min_exponent);
  this->ExpectSum({least, least, least}, 3 * least);
  this->ExpectSum({least, -least}, 0.0);
  this->ExpectSum({1.0, least, -1.0}, least);
  this->ExpectSum({-1.0, -least, 1.0, -least}, -2 * least);
}

// A million entries of any exponent in a few rows: what does not fit the cells is compacted
// repeatedly, and is no more than the digits of the sums.
TEST(SideEntries, AreBoundedByTheRowsAndNotByTheEntries) {
  constexpr uint64_t kRows = 5;
  constexpr size_t kDigits = 2 * WideInteger::kWords;
  const auto cpu = NewCpu();
  const auto reference = *MakeReferenceBackend({});
  for (ValueType type : {ValueType::kF32, ValueType::kF64}) {
    const ReduceSpec spec = MakeSpec("sum", type, kRows, 1);
    std::mt19937_64 random(1);
    std::vector<Update> updates(4);
    for (Update& update : updates) {
      update.weight = 0.75f;
      for (int i = 0; i < 250'000; ++i) update.rows.push_back(random() % kRows);
      update.values = MakeValues(spec, update.rows.size(), Values::kHostile, random);
    }
    const auto expected = Reduce(*reference, spec, updates);
    for (const std::string& plan : cpu->info().plans) {
      const auto aggregator = NewAggregator(*cpu, spec, plan);
      for (const Update& update : updates) {
        ASSERT_TRUE(aggregator->Accumulate(StageCopy(*aggregator, update), update.weight).ok());
        const auto partial = aggregator->Snapshot();
        ASSERT_TRUE(partial.ok()) << partial.status();
        EXPECT_GT(partial->side.size(), 0u);
        EXPECT_LE(partial->side.size(), kRows * kDigits) << plan;
      }
      EXPECT_LT(aggregator->memory_bytes(), uint64_t{16} << 20) << plan;
      EXPECT_EQ(Difference(expected, std::move(*aggregator).Report()), "") << plan;
    }
  }
}

}  // namespace
}  // namespace sparseagg::testing
