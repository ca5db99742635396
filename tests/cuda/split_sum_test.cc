// Sums in two 64-bit integers against those of 128 bits, which define them.
#include "cuda/kernels/rows/split_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "sparse/slot_math.h"
#include "sparse/window.h"

namespace sparseagg::gpu {
namespace {

// Whole numbers of every size up to the window's end and beyond, some with a fraction.
std::vector<double> Hostile(uint64_t seed, size_t count, int last_exponent) {
  std::mt19937_64 random(seed);
  std::vector<double> numbers;
  while (numbers.size() < count) {
    const auto significand = static_cast<double>(random() >> (11 + random() % 53));
    const int exponent =
        static_cast<int>(random() % static_cast<unsigned>(last_exponent + 60)) - 60;
    const double number = std::ldexp(significand, exponent);
    numbers.push_back(random() % 2 == 0 ? number : -number);
  }
  return numbers;
}

TEST(SplitSum, AddsWhatTheWindowHoldsAndNothingElse) {
  std::vector<double> numbers = Hostile(1, 200'000, 50);
  for (const int exponent : {0, 1, 49, 50, 51, 52, 53, 86, 87, 88, 89, 101, 102, 103, 200, 900}) {
    for (const double factor : {1.0, 1.5, 1 - 0x1p-53, 1 + 0x1p-52, 2 - 0x1p-52}) {
      numbers.push_back(std::ldexp(factor, exponent));
      numbers.push_back(-std::ldexp(factor, exponent));
    }
  }
  for (const double number : {0.0, -0.0, 0.5, 0x1p-300, 3 * 0x1p50, 0x1p50 + 0.25, 0x1p51 + 0.5}) {
    numbers.push_back(number);
  }
  size_t held = 0;
  for (const double number : numbers) {
    Int128 expected = 0;
    const bool fits = ToFixed(number, 0, &expected);
    SplitSum sum;
    ASSERT_EQ(sum.Add(number), fits) << number;
    ASSERT_TRUE(sum.Total(1) == expected) << number;
    held += fits ? 1 : 0;
  }
  EXPECT_GT(held, numbers.size() / 4);
  EXPECT_LT(held, numbers.size() * 3 / 4);
}

TEST(SplitSum, OfAsManyAddendsAsThereMayBeIsThatOf128Bits) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const uint32_t addends = seed % 3 == 0 ? kSplitAddendsMax : 1 + seed % kSplitAddendsMax;
    std::vector<double> numbers = Hostile(seed, addends, seed % 2 == 0 ? 35 : 1);
    if (seed % 5 == 0) numbers.assign(addends, seed % 10 == 0 ? 0x1p88 - 0x1p35 : -0x1p50);
    SplitSum sum;
    Int128 expected = 0;
    for (const double number : numbers) {
      Int128 addend = 0;
      ToFixed(number, 0, &addend);
      expected += addend;
      sum.Add(number);
    }
    ASSERT_TRUE(sum.Total(addends) == expected) << seed;
    for (const int lsb : {-kSplitLsbMax, -149, -90, -20, 0, 30, 100, kSplitLsbMax}) {
      for (const FloatFormat format : {kFormatF16, kFormatBF16, kFormatF32, kFormatF64}) {
        const double rounded = sum.Value(addends, PowerOfTwo(lsb)).Round(format);
        ASSERT_EQ(BitCast<uint64_t>(rounded), BitCast<uint64_t>(RoundScaled(expected, lsb, format)))
            << seed << " lsb " << lsb << " precision " << format.precision;
      }
    }
  }
}

// Halfway between two numbers of the format, and a last bit more or less.
TEST(SplitSum, RoundsTiesOnce) {
  for (const int top : {24, 30, 52, 53, 54, 60, 75, 80, 87}) {
    for (const int precision : {8, 11, 24, 53}) {
      if (top <= precision) continue;
      for (const double odd : {0.0, 1.0}) {
        for (const double last : {-1.0, 0.0, 1.0}) {
          const std::vector<double> addends = {std::ldexp(1.0, top),
                                               std::ldexp(odd, top - precision + 1),
                                               std::ldexp(1.0, top - precision), last};
          SplitSum sum;
          Int128 expected = 0;
          for (const double addend : addends) {
            Int128 fixed = 0;
            ASSERT_TRUE(ToFixed(addend, 0, &fixed));
            expected += fixed;
            ASSERT_TRUE(sum.Add(addend));
          }
          for (const FloatFormat format : {kFormatF16, kFormatBF16, kFormatF32, kFormatF64}) {
            for (const int lsb : {-90, -170, -60, 0}) {
              ASSERT_EQ(BitCast<uint64_t>(sum.Value(4, PowerOfTwo(lsb)).Round(format)),
                        BitCast<uint64_t>(RoundScaled(expected, lsb, format)));
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace sparseagg::gpu
