#include "sparse/wide_integer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace sparseagg {
namespace {

WideInteger SumOf(const std::vector<double>& values) {
  WideInteger sum;
  for (double value : values) sum.Add(value);
  return sum;
}

TEST(WideInteger, HoldsOneDoubleOfAnyKindExactly) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const double value = BitCast<double>(random());
    if (!std::isfinite(value) || value == 0) continue;
    WideInteger sum;
    sum.Add(value);
    EXPECT_EQ(sum.ToDouble(), value);
    EXPECT_EQ(sum.negative(), value < 0);
  }
}

TEST(WideInteger, SumsOfTwoRoundLikeTheHardware) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100000; ++i) {
    const double a = BitCast<double>(random());
    const double b = i % 2 == 0 ? BitCast<double>(random())
                                : -a * (1 + static_cast<double>(random() % 64) * 0x1p-52);
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    EXPECT_EQ(SumOf({a, b}).ToDouble(), a + b) << a << " " << b;
  }
}

TEST(WideInteger, EverythingCancelsToPlusZeroInAnyOrder) {
  std::mt19937_64 random(3);
  std::vector<double> values;
  while (values.size() < 2000) {
    const double value = BitCast<double>(random());
    if (!std::isfinite(value)) continue;
    values.push_back(value);
    values.push_back(-value);
  }
  std::shuffle(values.begin(), values.end(), random);
  const WideInteger sum = SumOf(values);
  EXPECT_EQ(sum, WideInteger());
  EXPECT_EQ(BitCast<uint64_t>(sum.ToDouble()), 0u);
}

TEST(WideInteger, TheSmallestBesideTheLargest) {
  const double max = std::numeric_limits<double>::max();
  const double min = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(SumOf({max, min, -max}).ToDouble(), min);
  EXPECT_EQ(SumOf({max, max}).ToDouble(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(SumOf({-max, -max, max}).ToDouble(), -max);
  EXPECT_EQ(SumOf({max, max, max, -max, -max}).ToDouble(), max)
      << "sums beyond f64 on the way do not stick";
}

TEST(WideInteger, OneTinyBitBreaksATie) {
  // 2^53 + 1 lies between two doubles; the smallest double decides.
  EXPECT_EQ(SumOf({0x1p53, 1.0}).ToDouble(), 0x1p53);
  EXPECT_EQ(SumOf({0x1p53, 1.0, 0x1p-1074}).ToDouble(), 0x1p53 + 2);
  EXPECT_EQ(SumOf({0x1p53, 1.0, -0x1p-1074}).ToDouble(), 0x1p53);
  EXPECT_EQ(SumOf({-0x1p53, -1.0, -0x1p-1074}).ToDouble(), -0x1p53 - 2);
}

TEST(WideInteger, AddScaledTakesAllOf128Bits) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 20000; ++i) {
    const auto value =
        static_cast<Int128>((static_cast<UInt128>(random()) << 64) | random()) >> (random() % 128);
    const int exponent = static_cast<int>(random() % 800) - 400;
    WideInteger sum;
    sum.AddScaled(value, exponent);
    EXPECT_EQ(sum.ToDouble(), RoundScaled(value, exponent, kFormatF64));
    sum.AddScaled(-value, exponent);
    EXPECT_EQ(sum, WideInteger());
  }
}

TEST(WideInteger, ConvertsWholeNumbersToIntegers) {
  WideInteger sum;
  Int128 expected = 0;
  std::mt19937_64 random(5);
  for (int i = 0; i < 1000; ++i) {
    const auto value =
        static_cast<Int128>(static_cast<int64_t>(random())) * static_cast<int64_t>(random() >> 40);
    sum.AddScaled(value, 0);
    expected += value;
    ASSERT_EQ(sum.ToInteger() == expected, true) << i;
  }
}

TEST(WideInteger, AddingWideIntegersIsAddingTheirParts) {
  WideInteger a = SumOf({1e300, -3.5, 1e-300});
  a.Add(SumOf({-1e300, 7.0}));
  EXPECT_EQ(a, SumOf({3.5, 1e-300}));
}

}  // namespace
}  // namespace sparseagg
