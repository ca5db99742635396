#include "sparse/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/support/workload.h"

namespace sparseagg {
namespace {

using ::testing::HasSubstr;
using testing::MakeSpec;

template <class V>
absl::Status Validate(const ReduceSpec& spec, const std::vector<uint64_t>& rows,
                      const std::vector<V>& values, float weight = 1) {
  return ValidateUpdate(spec, {spec.layout, rows.size(), rows.data(), values.data()}, weight)
      .status();
}

void ExpectError(const absl::Status& status, const std::string& reason, const std::string& part) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReason(status), reason);
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(ValidateUpdate, NamesTheEntryOfANonFiniteValue) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 800, 2);
  const float nan = std::nanf("");
  EXPECT_TRUE(Validate<float>(spec, {1, 799}, {1, 2, 3, 4}).ok());
  ExpectError(Validate<float>(spec, {1, 799}, {1, 2, 3, nan}), "NON_FINITE_VALUE",
              "tensor \"t\": entry 1 (row 799), value 1 is NaN");
  ExpectError(Validate<float>(spec, {1, 799}, {-INFINITY, 2, 3, 4}), "NON_FINITE_VALUE",
              "entry 0 (row 1), value 0 is infinite");
}

TEST(ValidateUpdate, FindsNonFiniteValuesOfEveryFloatingType) {
  const std::vector<uint16_t> f16 = {0x7C00};
  ExpectError(Validate(MakeSpec("max", ValueType::kF16, 8, 1), {1}, f16), "NON_FINITE_VALUE",
              "infinite");
  const std::vector<uint16_t> bf16 = {0x7FC0};
  ExpectError(Validate(MakeSpec("count", ValueType::kBF16, 8, 1), {1}, bf16), "NON_FINITE_VALUE",
              "NaN");
  ExpectError(Validate<double>(MakeSpec("sum", ValueType::kF64, 8, 1), {1}, {-HUGE_VAL}),
              "NON_FINITE_VALUE", "infinite");
}

TEST(ValidateUpdate, RowsAreBelowTheNumberOfRows) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 800, 1);
  ExpectError(Validate<float>(spec, {799, 800}, {1, 2}), "INDEX_OUT_OF_RANGE",
              "index 800 at entry 1 is not below 800 rows");
}

TEST(ValidateUpdate, WeightsAreFiniteAndNotNegative) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 8, 1);
  EXPECT_TRUE(Validate<float>(spec, {1}, {1}, 0.0f).ok());
  EXPECT_TRUE(Validate<float>(spec, {1}, {1}, -0.0f).ok());
  for (float weight : {-1.0f, -1e-40f, INFINITY, std::nanf("")}) {
    ExpectError(Validate<float>(spec, {1}, {1}, weight), "INVALID_WEIGHT",
                "must be finite and not negative");
  }
}

TEST(ValidateUpdate, WeightsOfIntegersAreWhole) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kI32, 8, 1);
  EXPECT_TRUE(Validate<int32_t>(spec, {1}, {1}, kIntegerWeightMax).ok());
  ExpectError(Validate<int32_t>(spec, {1}, {1}, 0.5f), "INVALID_WEIGHT", "whole number");
  ExpectError(Validate<int32_t>(spec, {1}, {1}, kIntegerWeightMax * 2), "INVALID_WEIGHT",
              "the weight 33554432 must be a whole number of at most 16777216");
}

TEST(ValidateUpdate, AProductBeyondF64IsRefused) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF64, 8, 1);
  EXPECT_TRUE(Validate<double>(spec, {1}, {1e300}, 1e8f).ok());
  ExpectError(Validate<double>(spec, {0, 1}, {1, 1e300}, 1e9f), "PRODUCT_OVERFLOW",
              "entry 1 (row 1)");
}

TEST(ValidateUpdate, AWeightThatTheOperatorDoesNotUseIsOnlyFiniteAndNotNegative) {
  for (const char* op : {"min", "max", "count"}) {
    const ReduceSpec f64 = MakeSpec(op, ValueType::kF64, 8, 1);
    EXPECT_TRUE(Validate<double>(f64, {1}, {1e300}, 1e30f).ok()) << op;
    ExpectError(Validate<double>(f64, {1}, {INFINITY}, 1e30f), "NON_FINITE_VALUE", "infinite");
    const ReduceSpec i32 = MakeSpec(op, ValueType::kI32, 8, 1);
    EXPECT_TRUE(Validate<int32_t>(i32, {1}, {1}, 0.5f).ok()) << op;
    EXPECT_TRUE(Validate<int32_t>(i32, {1}, {1}, 1e30f).ok()) << op;
    ExpectError(Validate<int32_t>(i32, {1}, {1}, -1.0f), "INVALID_WEIGHT", "not negative");
  }
  for (const char* op : {"sum", "weighted_mean", "mean_of_contributors"}) {
    ExpectError(Validate<double>(MakeSpec(op, ValueType::kF64, 8, 1), {1}, {1e300}, 1e30f),
                "PRODUCT_OVERFLOW", "beyond f64");
    ExpectError(Validate<int32_t>(MakeSpec(op, ValueType::kI32, 8, 1), {1}, {1}, 0.5f),
                "INVALID_WEIGHT", "whole number");
  }
}

TEST(ValidateUpdate, DuplicatesOfMinAndMaxSumUpWithinTheType) {
  const int32_t most = std::numeric_limits<int32_t>::max();
  ReduceSpec spec = MakeSpec("max", ValueType::kI32, 8, 1);
  EXPECT_TRUE(Validate<int32_t>(spec, {3, 1, 3}, {most - 1, 5, 1}).ok());
  ExpectError(Validate<int32_t>(spec, {3, 1, 3}, {most, 5, 1}), "INTEGER_OVERFLOW",
              "entry 2 (row 3)");
  spec.integer_overflow = IntegerOverflow::kModular;
  EXPECT_TRUE(Validate<int32_t>(spec, {3, 1, 3}, {most, 5, 1}).ok());
  EXPECT_TRUE(
      Validate<int32_t>(MakeSpec("sum", ValueType::kI32, 8, 1), {3, 1, 3}, {most, 5, 1}).ok())
      << "a sum is checked when it is complete";
}

TEST(ValidateUpdate, AnEmptyUpdateIsValid) {
  EXPECT_TRUE(Validate<float>(MakeSpec("sum", ValueType::kF32, 8, 1), {}, {}).ok());
}

TEST(UpdateValidator, HasTheSameOutcomeInAnySteps) {
  const ReduceSpec spec = MakeSpec("sum", ValueType::kF32, 5000, 2);
  for (const uint64_t bad_entry : {0, 63, 64, 4095, 4096, 4999}) {
    std::vector<uint64_t> rows(5000);
    std::iota(rows.begin(), rows.end(), uint64_t{0});
    std::vector<float> values(10'000, 1.0f);
    const auto check_in_steps = [&](uint64_t step) {
      UpdateValidator validator(spec, {spec.layout, rows.size(), rows.data(), values.data()}, 1);
      absl::Status status;
      for (uint64_t end = step; status.ok() && end < rows.size(); end += step) {
        status = validator.CheckValues(2 * end + end % 2);
      }
      return status.ok() ? validator.Finish() : absl::StatusOr<EntryOrder>(status);
    };
    for (const uint64_t step : {1, 100, 4097}) {
      EXPECT_EQ(check_in_steps(step).value(), EntryOrder::kCanonical);
    }
    values[2 * bad_entry + 1] = INFINITY;
    for (const uint64_t step : {1, 100, 4097, 6000}) {
      EXPECT_EQ(check_in_steps(step).status(), Validate(spec, rows, values));
    }
    values[2 * bad_entry + 1] = 0;
    rows[bad_entry] = bad_entry == 0 ? 1 : rows[bad_entry - 1];
    EXPECT_EQ(check_in_steps(7).value(), EntryOrder::kSorted);
    rows[bad_entry] = 5000;
    ExpectError(check_in_steps(7).status(), "INDEX_OUT_OF_RANGE",
                absl::StrCat("at entry ", bad_entry));
    EXPECT_EQ(check_in_steps(7).status(), Validate(spec, rows, values));
  }
}

}  // namespace
}  // namespace sparseagg
