// A coordinate's exact value, a cell and its side entries, for LowerValue().
#ifndef SPARSEAGG_CPU_EXACT_CELL_H_
#define SPARSEAGG_CPU_EXACT_CELL_H_

#include <cstdint>
#include <span>

#include "sparse/float_format.h"
#include "sparse/partial.h"
#include "sparse/wide_integer.h"

namespace sparseagg {

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
      const double addend = ScaleExact(
          static_cast<uint64_t>(entry.significand < 0 ? -entry.significand : entry.significand),
          entry.exponent);
      if (!(addend < 0x1p1000)) return false;
      double lost = 0.0;
      Add(low, entry.significand < 0 ? -addend : addend, lost);
      if (lost != 0.0) return false;
    }
    double rest = 0.0;
    Add(high, low, rest);
    low = rest;
    return true;
  }

  static void Add(double& sum, double addend, double& lost) {
    const double before = sum;
    sum = before + addend;
    const double taken = sum - before;
    lost = (before - (sum - taken)) + (addend - taken);
  }

  // Rounds high + low once: where something follows, the last bit of `high` is made odd in its
  // direction, so that no tie is seen where there is none (round to odd: Boldo and Melquiond, 2008;
  // right while the format has two bits less than a double).
  static double RoundPair(double high, double low, FloatFormat format) {
    if (format.precision == kFormatF64.precision) return high + 0.0;
    const uint64_t bits = BitCast<uint64_t>(high);
    if (low != 0.0 && (bits & 1) == 0) {
      const bool away = (low > 0) == (high > 0);
      high = BitCast<double>(away ? bits + 1 : bits - 1);
    }
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

#endif  // SPARSEAGG_CPU_EXACT_CELL_H_
