#include "sparse/window.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace sparseagg {
namespace {

TEST(Window, WhatItTakesItHoldsExactly) {
  std::mt19937_64 random(1);
  int taken = 0;
  for (int i = 0; i < 200000; ++i) {
    const double value =
        std::ldexp(static_cast<double>(static_cast<int64_t>(random()) >> (11 + random() % 40)),
                   static_cast<int>(random() % 120) - 100);
    const int lsb = static_cast<int>(random() % 80) - 90;
    Int128 fixed = 12345;
    if (!ToFixed(value, lsb, &fixed)) {
      EXPECT_EQ(fixed == 12345, true) << "unchanged";
      continue;
    }
    ++taken;
    EXPECT_EQ(RoundScaled(fixed, lsb, kFormatF64), value);
    const UInt128 magnitude =
        fixed < 0 ? -static_cast<UInt128>(fixed) : static_cast<UInt128>(fixed);
    EXPECT_LE(BitWidth(magnitude), kWindowValueBits);
  }
  EXPECT_GT(taken, 20000);
}

TEST(Window, RefusesWhatItsLastBitCannotHold) {
  Int128 fixed = 0;
  EXPECT_TRUE(ToFixed(0x1p-10, -10, &fixed));
  EXPECT_TRUE(fixed == 1);
  EXPECT_FALSE(ToFixed(0x1p-11, -10, &fixed));
  EXPECT_FALSE(ToFixed(1 + 0x1p-11, -10, &fixed));
  EXPECT_TRUE(ToFixed(0.0, -10, &fixed));
  EXPECT_TRUE(fixed == 0);
  EXPECT_TRUE(ToFixed(-0.0, -10, &fixed));
}

TEST(Window, RefusesWhatIsTooLargeForItsHeadroom) {
  Int128 fixed = 0;
  EXPECT_TRUE(ToFixed(std::ldexp(1.0, kWindowValueBits - 1), 0, &fixed));
  EXPECT_FALSE(ToFixed(std::ldexp(1.0, kWindowValueBits), 0, &fixed));
}

}  // namespace
}  // namespace sparseagg
