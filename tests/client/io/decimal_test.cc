#include "client/io/decimal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sparse/values.h"

namespace sparseagg::client {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The decimal digits of magnitude * 2^exponent by school arithmetic, in the form DIGITSe-N.
class ExactDecimal {
 public:
  ExactDecimal(uint64_t magnitude, int exponent)
      : limbs_{magnitude % kBase, magnitude / kBase % kBase} {
    limbs_.push_back(magnitude / kBase / kBase);
    for (int i = 0; i < exponent; ++i) Multiply(2);
    // x / 2^n = x * 5^n / 10^n
    for (int i = 0; i > exponent; --i) Multiply(5);
    places_ = std::max(0, -exponent);
  }
  std::string text() const { return absl::StrCat(Digits(), "e-", places_); }
  // Greater, and less, by a part of the last digit that is far beyond any double's precision.
  std::string above() const { return absl::StrCat(Digits(), kNothings, "1e-", places_ + 41); }
  std::string below() const {
    std::string digits = Digits();
    size_t last = digits.size() - 1;
    while (digits[last] == '0') digits[last--] = '9';
    --digits[last];
    return absl::StrCat(digits, kNines, "e-", places_ + 40);
  }

 private:
  static constexpr uint64_t kBase = 1'000'000'000;
  static constexpr char kNothings[] = "0000000000000000000000000000000000000000";
  static constexpr char kNines[] = "9999999999999999999999999999999999999999";
  void Multiply(uint64_t factor) {
    uint64_t carry = 0;
    for (uint64_t& limb : limbs_) {
      const uint64_t product = limb * factor + carry;
      limb = product % kBase;
      carry = product / kBase;
    }
    if (carry != 0) limbs_.push_back(carry);
  }
  std::string Digits() const {
    std::string digits;
    for (size_t i = limbs_.size(); i-- > 0;) {
      const std::string limb = std::to_string(limbs_[i]);
      digits += std::string(9 - limb.size(), '0') + limb;
    }
    return digits;
  }

  std::vector<uint64_t> limbs_;  // the least first
  int places_ = 0;
};

// Parses the midpoint of `low` and `high`, neighbours in a format, and numbers just beside it, with
// both signs. `even` is the one of the two whose last bit is 0.
void ExpectOneRounding(const ExactDecimal& middle, double low, double high, double even,
                       FloatFormat format) {
  const std::string texts[] = {middle.below(), middle.text(), middle.above()};
  const double wanted[] = {low, even, high};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ParseDecimal(texts[i], format), wanted[i]) << texts[i];
    const std::optional<double> negative = ParseDecimal("-" + texts[i], format);
    EXPECT_EQ(negative, -wanted[i]) << texts[i];
    EXPECT_TRUE(std::signbit(negative.value_or(0))) << texts[i];
  }
}

// Every midpoint of a 16-bit format, including the one beyond its largest number.
template <class V>
void ExpectOneRoundingEverywhere(FloatFormat format) {
  const double beyond = ScaleExact(1, format.max_exponent + 1);
  for (uint16_t bits = 0; std::isfinite(Widen(V{bits})); ++bits) {
    const double low = Widen(V{bits});
    const double next = Widen(V{static_cast<uint16_t>(bits + 1)});
    const double high = std::isfinite(next) ? next : beyond;
    const Scaled middle = Decompose(low + (high - low) / 2);
    ExpectOneRounding(ExactDecimal(static_cast<uint64_t>(middle.significand), middle.exponent), low,
                      next, bits % 2 == 0 ? low : next, format);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(ParseDecimalTest, RoundsOnceBesideEveryMiddleOfF16) {
  ExpectOneRoundingEverywhere<F16>(kFormatF16);
}

TEST(ParseDecimalTest, RoundsOnceBesideEveryMiddleOfBF16) {
  ExpectOneRoundingEverywhere<BF16>(kFormatBF16);
}

// Midpoints of all magnitudes, drawn by their bits.
TEST(ParseDecimalTest, RoundsOnceBesideMiddlesOfF32) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const auto bits = static_cast<uint32_t>(random() % 0x7F800000);
    const double low = BitCast<float>(bits);
    const double next = BitCast<float>(bits + 1);
    const double high = std::isfinite(next) ? next : 0x1p128;
    const Scaled middle = Decompose(low + (high - low) / 2);
    ExpectOneRounding(ExactDecimal(static_cast<uint64_t>(middle.significand), middle.exponent), low,
                      next, bits % 2 == 0 ? low : next, kFormatF32);
    if (HasFailure()) return;
  }
}

TEST(ParseDecimalTest, RoundsOnceBesideMiddlesOfF64) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 1'000; ++i) {
    uint64_t bits = random() % (uint64_t{0x7FF} << 52);
    if (i == 0) bits = (uint64_t{0x7FF} << 52) - 1;  // the largest
    if (i == 1) bits = 0;
    const double low = BitCast<double>(bits);
    const double next = BitCast<double>(bits + 1);
    const Scaled parts = Decompose(low);
    const ExactDecimal middle(2 * static_cast<uint64_t>(parts.significand) + 1, parts.exponent - 1);
    ExpectOneRounding(middle, low, next, bits % 2 == 0 ? low : next, kFormatF64);
    if (HasFailure()) return;
  }
}

TEST(ParseDecimalTest, RoundsThePublishedCasesOnce) {
  EXPECT_EQ(ParseDecimal("1.00390625000000000000001", kFormatBF16), 1.0078125);
  EXPECT_EQ(ParseDecimal("1.00390625", kFormatBF16), 1.0);
  EXPECT_EQ(ParseDecimal("-1.0117187499999999999999999999", kFormatBF16), -1.0078125);
  EXPECT_EQ(ParseDecimal("65519.99999999999999999", kFormatF16), 65504.0);
  EXPECT_EQ(ParseDecimal("65520", kFormatF16), kInfinity);
  EXPECT_EQ(ParseDecimal("2.98023223876953125e-8", kFormatF16), 0.0);
  EXPECT_EQ(ParseDecimal("2.980232238769531250000000000001e-8", kFormatF16), 0x1p-24);
}

TEST(ParseDecimalTest, ReadsEveryWayToWriteANumber) {
  for (const char* text : {"150", "+150", "150.", "150.0", "0150", "1.5e2", "1.5E+02", ".15e3",
                           "15000e-2", "1.5d2", "1.5D+02", "1.5q2", "1.5Q+002", "1.5+002",
                           "15000000000000000000000000000000000000000e-38"}) {
    for (const FloatFormat format : {kFormatF16, kFormatBF16, kFormatF32, kFormatF64}) {
      EXPECT_EQ(ParseDecimal(text, format), 150.0) << text;
    }
  }
  EXPECT_EQ(ParseDecimal("0.15-122", kFormatF64), 0.15e-122);
}

TEST(ParseDecimalTest, KeepsTheSignOfZero) {
  for (const FloatFormat format : {kFormatF16, kFormatBF16, kFormatF32, kFormatF64}) {
    for (const char* text : {"-0", "-0.0e5", "-1e-400", "-1d-400"}) {
      const std::optional<double> zero = ParseDecimal(text, format);
      EXPECT_EQ(zero, 0.0) << text;
      EXPECT_TRUE(std::signbit(zero.value_or(1))) << text;
    }
    EXPECT_FALSE(std::signbit(ParseDecimal("1e-400", format).value_or(-1)));
  }
}

TEST(ParseDecimalTest, IsInfiniteBeyondTheRangeHoweverLargeTheExponent) {
  for (const FloatFormat format : {kFormatF16, kFormatBF16, kFormatF32, kFormatF64}) {
    EXPECT_EQ(ParseDecimal("1e400", format), kInfinity);
    EXPECT_EQ(ParseDecimal("-1e99999999999999999999999", format), -kInfinity);
    EXPECT_EQ(ParseDecimal("1e-99999999999999999999999", format), 0.0);
    EXPECT_EQ(ParseDecimal("0e99999999999999999999999", format), 0.0);
  }
}

TEST(ParseDecimalTest, RefusesWhatIsNotANumber) {
  for (const char* text :
       {"",    "+",     "-",         ".",     "e5",  ".e5",    "1e",    "1e+",
        "1d",  "1.5.2", "1,5",       "+-1",   "--1", "1 ",     " 1",    "0x10",
        "nan", "inf",   "-infinity", "1_000", "1+5", "1+0005", "1e5e5", "1ee5"}) {
    for (const FloatFormat format : {kFormatF16, kFormatF32, kFormatF64}) {
      EXPECT_EQ(ParseDecimal(text, format), std::nullopt) << text;
    }
    EXPECT_EQ(ParseWholeDecimal(text), std::nullopt) << text;
  }
}

TEST(ParseWholeDecimalTest, ReadsWholeNumbersHoweverTheyAreWritten) {
  EXPECT_TRUE(ParseWholeDecimal("3.0") == Int128{3});
  EXPECT_TRUE(ParseWholeDecimal("-1.50e1") == Int128{-15});
  EXPECT_TRUE(ParseWholeDecimal("1e+16") == Int128{10'000'000'000'000'000});
  EXPECT_TRUE(ParseWholeDecimal("1800e-2") == Int128{18});
  EXPECT_TRUE(ParseWholeDecimal("-0.000") == Int128{0});
  EXPECT_TRUE(ParseWholeDecimal("0e999999999999") == Int128{0});
  EXPECT_TRUE(ParseWholeDecimal("18446744073709551616") ==
              Int128{std::numeric_limits<uint64_t>::max()} + 1);
}

TEST(ParseWholeDecimalTest, RefusesFractionsAndWhatIsFarTooLarge) {
  for (const char* text : {"0.5", "1e-1", "3.00000000000000000000000000000000000000001", "1e20",
                           "1e99999999999999999999999", "123456789012345678901"}) {
    EXPECT_EQ(ParseWholeDecimal(text), std::nullopt) << text;
  }
}

TEST(CompareDecimalTest, LooksAtEveryDigit) {
  EXPECT_EQ(CompareDecimal("0.1", 0.1), std::strong_ordering::less);
  EXPECT_EQ(CompareDecimal("-0.1", -0.1), std::strong_ordering::greater);
  EXPECT_EQ(CompareDecimal("1.5", 1.5), std::strong_ordering::equal);
  EXPECT_EQ(CompareDecimal("-0", 0.0), std::strong_ordering::equal);
  EXPECT_EQ(CompareDecimal("1e-400", 0.0), std::strong_ordering::greater);
  EXPECT_EQ(CompareDecimal("-1", 1e-320), std::strong_ordering::less);
  EXPECT_EQ(CompareDecimal("16777216.00000000000000000000001", 16777216.0),
            std::strong_ordering::greater);
}

}  // namespace
}  // namespace sparseagg::client
