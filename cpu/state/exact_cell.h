// A coordinate's exact value, a cell and its side entries, for LowerValue().
#ifndef SPARSEAGG_CPU_STATE_EXACT_CELL_H_
#define SPARSEAGG_CPU_STATE_EXACT_CELL_H_

#include <cmath>
#include <cstdint>
#include <span>

#include "cpu/state/cells.h"
#include "sparse/float_format.h"
#include "sparse/partial.h"
#include "sparse/wide_integer.h"

namespace sparseagg {

// high + low, low less than what follows the last bit of `high`: with that bit made odd in the
// direction of `low`, so that no tie is seen where there is none when it is rounded to a format
// that has two bits less than a double (Boldo and Melquiond, Emulation of FMA and correctly rounded
// sums, 2008).
inline double RoundToOdd(double high, double low) {
  const uint64_t bits = BitCast<uint64_t>(high);
  if (low == 0.0 || (bits & 1) != 0) return high;
  const bool away = (low > 0) == (high > 0);
  return BitCast<double>(away ? bits + 1 : bits - 1);
}

// Of an entry that is a double: a rounding error, or a digit of a sum (CompactSide). Infinite where
// it is none.
inline double ToDouble(const SideEntry& entry) {
  const bool negative = entry.significand < 0;
  const double magnitude = ScaleExact(
      static_cast<uint64_t>(negative ? -entry.significand : entry.significand), entry.exponent);
  return negative ? -magnitude : magnitude;
}

// A sum of doubles: cell + entries.
struct ExactSum {
  double cell;
  std::span<const SideEntry> side;

  double Round(FloatFormat format) const {
    double high = cell;
    double low = 0.0;
    return TwoDoubles(high, low) ? RoundPair(high, low, format) : Wide().Round(format);
  }
  Int128 ToInteger() const { return 0; }  // floating values have no integer result

 private:
  // The value as high + low with high the double nearest to it. False when two do not hold it.
  bool TwoDoubles(double& high, double& low) const {
    for (const SideEntry& entry : side) {
      const double addend = ToDouble(entry);
      if (!(std::fabs(addend) < 0x1p1000)) return false;
      if (AddExact(low, addend) != 0.0) return false;
    }
    low = AddExact(high, low);
    return true;
  }

  // Rounds high + low once.
  static double RoundPair(double high, double low, FloatFormat format) {
    if (format.precision == kFormatF64.precision) return high + 0.0;
    high = RoundToOdd(high, low);
    // The processor rounds to f32 as the contract does.
    if (format.precision == kFormatF32.precision) {
      return static_cast<double>(static_cast<float>(high)) + 0.0;
    }
    return RoundDouble(high, format);
  }

  WideInteger Wide() const {
    WideInteger sum;
    sum.Add(cell);
    for (const SideEntry& entry : side) sum.AddScaled(entry.significand, entry.exponent);
    return sum;
  }
};

// A cell that is the exact value itself: an integer, or an extreme.
struct ExactInteger {
  Int128 value;
  double Round(FloatFormat format) const { return RoundScaled(value, 0, format); }
  Int128 ToInteger() const { return value; }
};

// An extreme, already a number of the format.
struct ExactExtreme {
  double value;
  double Round(FloatFormat) const { return value; }
  Int128 ToInteger() const { return OrderKey(value); }
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_STATE_EXACT_CELL_H_
