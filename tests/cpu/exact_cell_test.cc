#include "cpu/state/exact_cell.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/state/side_table.h"

namespace sparseagg {
namespace {

struct NamedFormat {
  const char* name;
  FloatFormat format;
};
constexpr NamedFormat kFormats[] = {
    {"f16", kFormatF16}, {"bf16", kFormatBF16}, {"f32", kFormatF32}, {"f64", kFormatF64}};

WideInteger Wide(double cell, const std::vector<SideEntry>& side) {
  WideInteger sum;
  sum.Add(cell);
  for (const SideEntry& entry : side) sum.AddScaled(entry.significand, entry.exponent);
  return sum;
}

std::string Text(double cell, const std::vector<SideEntry>& side) {
  std::string text = absl::StrCat("cell ", absl::Hex(BitCast<uint64_t>(cell)));
  for (const SideEntry& entry : side) {
    absl::StrAppend(&text, " + ", entry.significand, " * 2^", entry.exponent);
  }
  return text;
}

// Expects the bits of the wide integer, in every format.
void ExpectRounded(double cell, const std::vector<SideEntry>& side) {
  const WideInteger wide = Wide(cell, side);
  for (const NamedFormat& f : kFormats) {
    const double expected = wide.Round(f.format);
    const double actual = ExactSum{cell, side}.Round(f.format);
    ASSERT_EQ(BitCast<uint64_t>(actual), BitCast<uint64_t>(expected))
        << f.name << ": " << Text(cell, side) << " is " << actual << ", expected " << expected;
  }
}

SideEntry EntryOf(double value) {
  const Scaled parts = Decompose(value);
  return {0, 0, parts.exponent, parts.significand};
}

double Next(double value, int steps) {
  for (; steps > 0; --steps) value = std::nextafter(value, HUGE_VAL);
  for (; steps < 0; ++steps) value = std::nextafter(value, -HUGE_VAL);
  return value;
}

// Numbers at which a format's rounding changes direction: halfway between two of its numbers, at
// its smallest and its largest ones, and at powers of two, where the distance of numbers changes.
std::vector<double> Turns(FloatFormat format) {
  std::vector<double> turns;
  const double least = std::ldexp(1.0, format.min_exponent);
  if (format.min_exponent > -1074) turns.push_back(least / 2);
  for (double multiple : {1.0, 1.5, 2.0, 2.5}) turns.push_back(multiple * least);
  for (int exponent : {format.min_exponent + format.precision, -3, 0, 7, format.max_exponent}) {
    if (exponent > 1000) exponent = 1000;
    const double power = std::ldexp(1.0, exponent);
    const double ulp = std::ldexp(power, 1 - format.precision);
    for (double multiple : {0.0, 0.5, 1.0, 1.5, 2.0, 2.5, -0.25, -0.5, -0.75}) {
      turns.push_back(power + multiple * ulp);
    }
    turns.push_back(2 * (power - ulp / 2));  // the largest number of this exponent
    turns.push_back(2 * (power - ulp / 4));  // and halfway to the next power
  }
  return turns;
}

TEST(ExactSum, WithoutSideEntriesRoundsOnce) {
  for (const NamedFormat& f : kFormats) {
    for (double turn : Turns(f.format)) {
      for (int step = -2; step <= 2; ++step) {
        ExpectRounded(Next(turn, step), {});
        ExpectRounded(-Next(turn, step), {});
      }
    }
  }
  ExpectRounded(0.0, {});
}

// A side entry far below the cell decides on which side of a tie the sum is.
TEST(ExactSum, TheSmallestEntryDecidesATie) {
  for (const NamedFormat& f : kFormats) {
    for (double turn : Turns(f.format)) {
      for (int step = -1; step <= 1; ++step) {
        const double cell = Next(turn, step);
        for (int exponent : {-1074, -1022, -160, -40}) {
          const double tiny = std::ldexp(1.0, exponent);
          if (tiny > std::fabs(cell) * 0x1p-53) continue;
          for (double sign : {-1.0, 1.0}) {
            ExpectRounded(cell, {EntryOf(sign * tiny)});
            ExpectRounded(-cell, {EntryOf(sign * tiny)});
            ExpectRounded(cell, {EntryOf(sign * tiny), EntryOf(-sign * tiny)});
            ExpectRounded(cell, {EntryOf(sign * tiny), EntryOf(-sign * 3 * tiny)});
          }
        }
      }
    }
  }
}

// Half the distance to the next double, in one entry or two, with something below it or not.
TEST(ExactSum, EntriesOfHalfALastBitOfTheCell) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const int exponent = static_cast<int>(random() % 1800) - 900;
    const double cell =
        std::ldexp(static_cast<double>((random() >> 11) | (uint64_t{1} << 52)), exponent) *
        (random() % 2 == 0 ? 1 : -1);
    const double half = std::ldexp(random() % 2 == 0 ? 0.5 : -0.5, exponent);
    ExpectRounded(cell, {EntryOf(half)});
    ExpectRounded(cell, {EntryOf(half / 2), EntryOf(half / 2)});
    ExpectRounded(cell, {EntryOf(half), EntryOf(std::ldexp(half, -60))});
    ExpectRounded(cell, {EntryOf(half), EntryOf(-std::ldexp(half, -120))});
    if (HasFatalFailure()) return;
  }
}

TEST(ExactSum, EntriesThatCancelTheCell) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000; ++i) {
    const double cell = std::ldexp(static_cast<double>(static_cast<int64_t>(random()) >> 11),
                                   static_cast<int>(random() % 300) - 150);
    const double rest = std::ldexp(static_cast<double>(static_cast<int64_t>(random()) >> 40),
                                   static_cast<int>(random() % 300) - 200);
    ExpectRounded(cell, {EntryOf(-cell)});
    ExpectRounded(cell, {EntryOf(-cell), EntryOf(rest)});
    ExpectRounded(cell, {EntryOf(rest), EntryOf(-cell)});
    ExpectRounded(cell, {EntryOf(rest), EntryOf(-cell), EntryOf(-rest)});
    if (HasFatalFailure()) return;
  }
}

TEST(ExactSum, SumsBeyondTheRangeAreInfiniteAndMayComeBack) {
  const double largest = std::numeric_limits<double>::max();
  ExpectRounded(0.0, {EntryOf(largest), EntryOf(largest)});
  ExpectRounded(0.0, {EntryOf(-largest), EntryOf(-largest), EntryOf(1.0)});
  ExpectRounded(0.0, {EntryOf(largest), EntryOf(largest), EntryOf(-largest)});
  ExpectRounded(1.0, {EntryOf(largest), EntryOf(largest), EntryOf(-largest), EntryOf(-largest)});
  ExpectRounded(0x1p1008, {EntryOf(largest)});
  ExpectRounded(0.0, {EntryOf(largest), EntryOf(0x1p969)});   // below half a last bit
  ExpectRounded(0.0, {EntryOf(largest), EntryOf(0x1p970)});   // half: a tie, to infinity
  ExpectRounded(-1.0, {EntryOf(largest), EntryOf(0x1p970)});  // just less than half
  ExpectRounded(0x1.fffffep127, {EntryOf(0x1p103)});          // the same of f32
  ExpectRounded(0x1.fffffep127, {EntryOf(0x1p103), EntryOf(-0x1p-1074)});
}

// A few entries of both kinds that occur: doubles in parts, and 32-bit digits.
TEST(ExactSum, RandomEntries) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100000; ++i) {
    const int spread = 1 + static_cast<int>(random() % (i % 10 == 0 ? 900 : 70));
    const auto draw = [&](int bits) {
      const int64_t significand = static_cast<int64_t>(random()) >> (64 - bits);
      return std::ldexp(static_cast<double>(significand),
                        static_cast<int>(random() % spread) - spread / 2);
    };
    const double cell = draw(1 + random() % 53) + 0.0;
    std::vector<SideEntry> side;
    for (uint64_t n = random() % 4; n > 0; --n) side.push_back(EntryOf(draw(1 + random() % 53)));
    if (i % 3 == 0) AppendDigits(Wide(draw(53), {EntryOf(draw(50))}), 0, 0, side);
    ExpectRounded(cell, side);
    if (HasFatalFailure()) return;
  }
}

// Sums as cells are summed: addition by addition, with each error pushed.
TEST(ExactSum, RoundsWhatACellAndItsErrorsHold) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 3000; ++i) {
    double cell = -0.0;
    SideTable side;
    WideInteger sum;
    const int spread = 1 + static_cast<int>(random() % 60);
    for (int n = 0; n < 40; ++n) {
      const double addend = std::ldexp(static_cast<double>(static_cast<int32_t>(random())),
                                       static_cast<int>(random() % spread));
      sum.Add(addend);
      const double before = cell;
      cell += addend;
      const double taken = cell - before;
      side.Push(0, 0, (before - (cell - taken)) + (addend - taken));
    }
    const std::vector<SideEntry> entries = side.Drain();
    for (const NamedFormat& f : kFormats) {
      ASSERT_EQ((ExactSum{cell, entries}.Round(f.format)), sum.Round(f.format)) << f.name;
    }
  }
}

TEST(ExactInteger, RoundsOnce) {
  const Int128 large = (Int128{1} << 120) + (Int128{1} << 67);
  WideInteger wide;
  wide.AddScaled(large, 0);
  for (const NamedFormat& f : kFormats) {
    EXPECT_EQ(ExactInteger{large}.Round(f.format), wide.Round(f.format)) << f.name;
    EXPECT_EQ(ExactInteger{0}.Round(f.format), 0.0) << f.name;
  }
  EXPECT_TRUE(ExactInteger{large}.ToInteger() == large);
}

}  // namespace
}  // namespace sparseagg
