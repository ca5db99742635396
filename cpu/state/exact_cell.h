// The exact value of a coordinate, made of its cell and its side entries, for FinalizeValue().
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

// Rounds high + low to odd, where `low` is less than the last bit of `high`: that bit becomes odd,
// in the direction of `low`. Rounding the result to a format that has two bits less than a double
// then sees no tie where there is none (Boldo and Melquiond, Emulation of FMA and correctly rounded
// sums, 2008).
inline double RoundToOdd(double high, double low) {
  const uint64_t bits = BitCast<uint64_t>(high);
  if (low == 0.0 || (bits & 1) != 0) return high;
  const bool away = (low > 0) == (high > 0);
  return BitCast<double>(away ? bits + 1 : bits - 1);
}

// Returns the value of an entry that is a double: a rounding error, or a digit of a sum
// (CompactSide). Returns infinity if the entry is not a double.
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
  // Sets high + low to the value, with `high` the double nearest to it. Returns false if two
  // doubles cannot hold it.
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
