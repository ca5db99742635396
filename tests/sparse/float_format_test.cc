#include "sparse/float_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "sparse/values.h"
#include "tests/sparse/compilers_f16.h"

namespace sparseagg {
namespace {

using testing::F16BitsByCompiler;
using testing::F16WidenedByCompiler;

uint64_t Bits(double value) { return BitCast<uint64_t>(value); }

// Returns a random finite double of any exponent.
double AnyDouble(std::mt19937_64& random) {
  for (;;) {
    const double value = BitCast<double>(random());
    if (std::isfinite(value)) return value;
  }
}

TEST(FloatFormat, TakeApartIsExactForEveryKindOfDouble) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const double value = AnyDouble(random);
    const Scaled parts = Decompose(value);
    EXPECT_EQ(std::ldexp(static_cast<double>(parts.significand), parts.exponent), value);
  }
  EXPECT_EQ(Decompose(-0.0).significand, 0);
  EXPECT_EQ(Decompose(std::numeric_limits<double>::denorm_min()).significand, 1);
}

// The hardware rounds double to float to nearest with ties to even: an independent oracle.
TEST(FloatFormat, RoundsToF32LikeTheHardware) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 300000; ++i) {
    double value = AnyDouble(random);
    // Most of them are in and around the range of f32, where all special cases are.
    int exponent = 0;
    if (i % 4 != 0)
      value = std::ldexp(std::frexp(value, &exponent), static_cast<int>(random() % 300) - 160);
    const float expected = static_cast<float>(value);
    const double rounded = RoundDouble(value, kFormatF32);
    if (expected == 0) {
      EXPECT_EQ(Bits(rounded), Bits(0.0)) << value;
    } else {
      EXPECT_EQ(Bits(rounded), Bits(expected)) << value;
    }
  }
}

TEST(FloatFormat, RoundsToF16LikeTheCompiler) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 300000; ++i) {
    const double value =
        std::ldexp(static_cast<double>(static_cast<int64_t>(random()) >> (random() % 60)),
                   static_cast<int>(random() % 60) - 60);
    const F16 narrow = ValueTraits<F16>::Narrow(RoundDouble(value, kFormatF16));
    uint16_t bits = F16BitsByCompiler(value);
    if (bits == 0x8000) bits = 0;  // zero is +0 here
    EXPECT_EQ(narrow.bits, bits) << value;
  }
}

TEST(FloatFormat, EveryF16AndBF16SurvivesWideningAndNarrowing) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const double wide = Widen(F16{half});
    if (!std::isnan(wide)) {
      EXPECT_EQ(Bits(wide), Bits(F16WidenedByCompiler(half))) << bits;
      EXPECT_EQ(ValueTraits<F16>::Narrow(wide).bits, half);
      EXPECT_EQ(RoundDouble(wide, kFormatF16), wide);
    }
    const double brain = Widen(BF16{half});
    if (!std::isnan(brain)) {
      EXPECT_EQ(ValueTraits<BF16>::Narrow(brain).bits, half);
      EXPECT_EQ(RoundDouble(brain, kFormatBF16), brain);
    } else {
      EXPECT_TRUE((bits & 0x7F80) == 0x7F80 && (bits & 0x7F) != 0);
    }
  }
}

TEST(FloatFormat, TiesGoToEven) {
  EXPECT_EQ(RoundScaled((Int128{1} << 24) + 1, 0, kFormatF32), 0x1p24);
  EXPECT_EQ(RoundScaled((Int128{1} << 24) + 3, 0, kFormatF32), 0x1p24 + 4);
  EXPECT_EQ(RoundScaled(-((Int128{1} << 24) + 1), 0, kFormatF32), -0x1p24);
  EXPECT_EQ(RoundScaled(257, 0, kFormatBF16), 256);
  EXPECT_EQ(RoundScaled(259, 0, kFormatBF16), 260);
}

TEST(FloatFormat, ABitBelowATieDecides) {
  // 2^24 + 1 is a tie; 2^-60 more or less is not.
  const Int128 tie = ((Int128{1} << 24) + 1) << 60;
  EXPECT_EQ(RoundScaled(tie + 1, -60, kFormatF32), 0x1p24 + 2);
  EXPECT_EQ(RoundScaled(tie - 1, -60, kFormatF32), 0x1p24);
  EXPECT_EQ(RoundMagnitude(static_cast<UInt128>(tie), -60, true, kFormatF32), 0x1p24 + 2)
      << "sticky";
}

TEST(FloatFormat, SubnormalsAreKeptAndRoundedOnce) {
  EXPECT_EQ(RoundScaled(1, -149, kFormatF32), 0x1p-149);
  EXPECT_EQ(RoundScaled(1, -150, kFormatF32), 0) << "a tie between 0 and the smallest number";
  EXPECT_EQ(RoundScaled(3, -151, kFormatF32), 0x1p-149);
  EXPECT_EQ(RoundScaled(1, -1074, kFormatF64), 0x1p-1074);
  EXPECT_EQ(RoundScaled(1, -24, kFormatF16), 0x1p-24);
  EXPECT_EQ(Bits(RoundScaled(-1, -400, kFormatF32)), Bits(0.0)) << "underflow is +0";
}

TEST(FloatFormat, RoundingMayCarryIntoTheNextPowerOfTwo) {
  EXPECT_EQ(RoundScaled((Int128{1} << 54) - 1, 0, kFormatF64), 0x1p54);
  EXPECT_EQ(RoundScaled((Int128{1} << 25) - 1, 0, kFormatF32), 0x1p25);
  EXPECT_EQ(RoundScaled((Int128{1} << 54) - 1, -1076, kFormatF64), 0x1p-1022)
      << "to a normal number";
}

TEST(FloatFormat, BeyondTheRangeIsInfinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(RoundScaled(65519, 0, kFormatF16), 65504);
  EXPECT_EQ(RoundScaled(65520, 0, kFormatF16), infinity);
  EXPECT_EQ(RoundScaled(1, 128, kFormatF32), infinity);
  EXPECT_EQ(RoundScaled(-1, 1024, kFormatF64), -infinity);
  EXPECT_EQ(RoundScaled((Int128{1} << 53) - 1, 971, kFormatF64),
            std::numeric_limits<double>::max());
}

TEST(FloatFormat, OrderKeysPreserveTheOrderAndAreInvertible) {
  const double ascending[] = {
      -std::numeric_limits<double>::infinity(), -1e308, -1.0, -1e-320, 0.0, 1e-320, 1.0, 1e308};
  for (size_t i = 0; i + 1 < std::size(ascending); ++i) {
    EXPECT_LT(OrderKey(ascending[i]), OrderKey(ascending[i + 1]));
    EXPECT_EQ(FromOrderKey(OrderKey(ascending[i])), ascending[i]);
  }
}

}  // namespace
}  // namespace sparseagg
