// Tests the documented meaning of every operator (sparse/ops/*.h) on every back end and plan of
// this build.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/status.h"
#include "sparse/ops/all.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeSpec;
using testing::Update;

template <class V>
Update MakeUpdate(float weight, std::vector<uint64_t> rows, std::vector<V> values) {
  Update update{weight, std::move(rows), std::vector<std::byte>(values.size() * sizeof(V))};
  if (!values.empty()) std::memcpy(update.values.data(), values.data(), update.values.size());
  return update;
}

template <class V>
std::vector<V> ValuesOf(const SparseTensor& tensor) {
  std::vector<V> values(tensor.values.size() / sizeof(V));
  if (!values.empty()) std::memcpy(values.data(), tensor.values.data(), tensor.values.size());
  return values;
}

// Runs `check` on the result of every back end and plan.
template <class Check>
void ForEachResult(const ReduceSpec& spec, const std::vector<Update>& updates, const Check& check) {
  int results = 0;
  for (const BackendFactory& factory : AllBackends()) {
    auto backend = factory.make({.threads = 2});
    if (!backend.ok()) continue;
    for (const std::string& plan : (*backend)->info().plans) {
      SCOPED_TRACE(std::string(factory.name) + "/" + plan);
      check(testing::Reduce(**backend, spec, updates, plan));
      ++results;
    }
  }
  EXPECT_GE(results, 3);
}

template <class V>
void ExpectResult(const ReduceSpec& spec, const std::vector<Update>& updates,
                  const std::vector<uint64_t>& rows, const std::vector<V>& values) {
  ForEachResult(spec, updates, [&](const absl::StatusOr<Aggregate>& result) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(std::ranges::equal(result->tensor.indices, rows));
    EXPECT_EQ(ValuesOf<V>(result->tensor), values);
    for (V value : ValuesOf<V>(result->tensor))
      EXPECT_FALSE(value == 0 && std::signbit(static_cast<double>(value)));
  });
}

ReduceSpec F32(const std::string& op, uint32_t width = 1) {
  return MakeSpec(op, ValueType::kF32, 100, width);
}

const std::vector<std::string> kOps(AllOps::kNames.begin(), AllOps::kNames.end());

TEST(Operators, AnEmptyRoundIsAnEmptyTensor) {
  for (const std::string& op : kOps) ExpectResult<float>(F32(op), {}, {}, {});
}

TEST(Operators, AnEmptyUpdateTouchesNothing) {
  for (const std::string& op : kOps)
    ExpectResult<float>(F32(op), {MakeUpdate<float>(2, {}, {})}, {}, {});
}

TEST(Sum, IndicesAreMatchedNotAdded) {
  ExpectResult<float>(F32("sum"),
                      {MakeUpdate<float>(1, {0, 5}, {1, 1}), MakeUpdate<float>(1, {5, 9}, {1, 1})},
                      {0, 5, 9}, {1, 2, 1});
}

TEST(Sum, WeightsMultiplyAndDuplicatesAdd) {
  ExpectResult<float>(F32("sum"),
                      {MakeUpdate<float>(2, {3, 3}, {1, 10}), MakeUpdate<float>(0.5, {3}, {4})},
                      {3}, {24});
}

TEST(Sum, ZeroWeightAndCancellationLeaveTheCoordinateWithPlusZero) {
  ExpectResult<float>(F32("sum"),
                      {MakeUpdate<float>(0, {1}, {-5}), MakeUpdate<float>(1, {2, 2}, {-7, 7}),
                       MakeUpdate<float>(1, {4}, {-0.0f})},
                      {1, 2, 4}, {0, 0, 0});
}

TEST(Sum, RoundsOnceNotAtEveryStep) {
  // 1 + 2^-24 + 2^-24: rounding at every step stays at 1.
  ExpectResult<float>(F32("sum"), {MakeUpdate<float>(1, {1, 1, 1}, {1, 0x1p-24f, 0x1p-24f})}, {1},
                      {1 + 0x1p-23f});
  // Large numbers cancel; the smallest subnormal is left.
  ExpectResult<float>(F32("sum"), {MakeUpdate<float>(1, {1, 1, 1}, {1e38f, 1e-45f, -1e38f})}, {1},
                      {1e-45f});
}

TEST(Sum, BeyondTheRangeIsInfiniteAndCounted) {
  const float most = std::numeric_limits<float>::max();
  const std::vector<Update> updates = {
      MakeUpdate<float>(1, {1, 1, 2, 2, 2, 3}, {most, most, most, most, -most, 1}),
      MakeUpdate<float>(1, {4, 4}, {-most, -most})};
  ForEachResult(F32("sum"), updates, [](const absl::StatusOr<Aggregate>& result) {
    ASSERT_TRUE(result.ok());
    EXPECT_THAT(ValuesOf<float>(result->tensor),
                ElementsAre(INFINITY, std::numeric_limits<float>::max(), 1, -INFINITY));
    EXPECT_EQ(result->infinite_values, 2u);
  });
}

TEST(WeightedMean, DividesByTheWholeWeightOfTheRound) {
  ExpectResult<float>(F32("weighted_mean"),
                      {MakeUpdate<float>(1, {1, 2}, {8, 4}), MakeUpdate<float>(3, {2}, {8}),
                       MakeUpdate<float>(4, {}, {})},
                      {1, 2}, {1, 3.5});
}

TEST(MeanOfContributors, DividesByTheWeightOfThoseThatHoldTheRow) {
  ExpectResult<float>(F32("mean_of_contributors"),
                      {MakeUpdate<float>(1, {1, 2}, {8, 4}), MakeUpdate<float>(3, {2}, {8}),
                       MakeUpdate<float>(4, {}, {})},
                      {1, 2}, {8, 7});
}

TEST(MeanOfContributors, CountsAContributorOnceHoweverOftenItRepeatsAnIndex) {
  ExpectResult<float>(F32("mean_of_contributors"),
                      {MakeUpdate<float>(1, {1, 1, 1}, {1, 2, 3}), MakeUpdate<float>(1, {1}, {4})},
                      {1}, {5});
}

TEST(Means, AZeroTotalWeightGivesPlusZeroNotNaN) {
  for (const char* op : {"weighted_mean", "mean_of_contributors"}) {
    ExpectResult<float>(F32(op), {MakeUpdate<float>(0, {1, 2}, {8, -4})}, {1, 2}, {0, 0});
  }
}

TEST(Means, OfIntegersRoundToNearestEven) {
  const ReduceSpec spec = MakeSpec("weighted_mean", ValueType::kI32, 100, 1);
  ExpectResult<int32_t>(spec,
                        {MakeUpdate<int32_t>(1, {1, 2, 3, 4, 5}, {1, 3, -1, -3, 5}),
                         MakeUpdate<int32_t>(1, {5}, {6})},
                        {1, 2, 3, 4, 5}, {0, 2, 0, -2, 6});
}

TEST(Count, CountsContributorsNotEntriesOrWeights) {
  ExpectResult<uint64_t>(MakeSpec("count", ValueType::kF32, 100, 3),
                         {MakeUpdate<float>(0, {1, 1}, {1, 2, 3, 4, 5, 6}),
                          MakeUpdate<float>(9, {1, 7}, {1, 2, 3, 4, 5, 6})},
                         {1, 7}, {2, 1});
}

TEST(MinAndMax, TakePartOnlyWhereHeldAndIgnoreWeights) {
  const std::vector<Update> updates = {MakeUpdate<float>(0, {1, 2}, {-3, 5}),
                                       MakeUpdate<float>(100, {1}, {2})};
  ExpectResult<float>(F32("min"), updates, {1, 2}, {-3, 5});
  ExpectResult<float>(F32("max"), updates, {1, 2}, {2, 5});
}

TEST(MinAndMax, SumDuplicatesOfAnUpdateFirst) {
  const std::vector<Update> updates = {MakeUpdate<float>(1, {4, 1, 4}, {3, 9, 4}),
                                       MakeUpdate<float>(1, {4}, {5})};
  ExpectResult<float>(F32("min"), updates, {1, 4}, {9, 5});
  ExpectResult<float>(F32("max"), updates, {1, 4}, {9, 7});
}

TEST(MinAndMax, ReadMinusZeroAsPlusZero) {
  ExpectResult<float>(F32("max"), {MakeUpdate<float>(1, {1}, {-0.0f})}, {1}, {0});
  ExpectResult<float>(F32("min"),
                      {MakeUpdate<float>(1, {1}, {0.0f}), MakeUpdate<float>(1, {1}, {-0.0f})}, {1},
                      {0});
}

TEST(CheckedIntegers, NameTheFirstIndexThatDoesNotFit) {
  const int32_t most = std::numeric_limits<int32_t>::max();
  const std::vector<Update> updates = {MakeUpdate<int32_t>(1, {9, 5, 7}, {most, 1, most}),
                                       MakeUpdate<int32_t>(1, {9, 7, 5}, {1, 1, 1})};
  ForEachResult(MakeSpec("sum", ValueType::kI32, 100, 1), updates,
                [](const absl::StatusOr<Aggregate>& result) {
                  EXPECT_EQ(result.status().code(), absl::StatusCode::kOutOfRange);
                  EXPECT_EQ(ErrorReason(result.status()), "INTEGER_OVERFLOW");
                  EXPECT_THAT(std::string(result.status().message()),
                              HasSubstr("tensor \"t\": the sum at index 7 does not fit in i32"));
                });
}

TEST(CheckedIntegers, OnlyTheCompleteSumMustFit) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  ExpectResult<int64_t>(MakeSpec("sum", ValueType::kI64, 100, 1),
                        {MakeUpdate<int64_t>(3, {1}, {most}), MakeUpdate<int64_t>(2, {1}, {-most})},
                        {1}, {most});
}

TEST(ModularIntegers, Wrap) {
  ReduceSpec spec = MakeSpec("sum", ValueType::kU32, 100, 1);
  spec.integer_overflow = IntegerOverflow::kModular;
  ExpectResult<uint32_t>(
      spec, {MakeUpdate<uint32_t>(1, {1}, {0xFFFFFFFF}), MakeUpdate<uint32_t>(1, {1}, {3})}, {1},
      {2});
}

TEST(RoundToInteger, TiesGoToEven) {
  EXPECT_EQ(static_cast<int64_t>(RoundToInteger(0.5)), 0);
  EXPECT_EQ(static_cast<int64_t>(RoundToInteger(1.5)), 2);
  EXPECT_EQ(static_cast<int64_t>(RoundToInteger(-2.5)), -2);
  EXPECT_EQ(static_cast<int64_t>(RoundToInteger(0x1p-1074)), 0);
  EXPECT_EQ(static_cast<int64_t>(RoundToInteger(-0.75)), -1);
  EXPECT_EQ(static_cast<int64_t>(RoundToInteger(0x1p62)), int64_t{1} << 62);
  EXPECT_EQ(static_cast<int64_t>(RoundToInteger(4503599627370497.5)), 4503599627370498);
}

}  // namespace
}  // namespace sparseagg
