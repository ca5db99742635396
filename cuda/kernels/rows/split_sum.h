// The exact sum of up to kSplitAddendsMax products in two 64-bit integers, by additions of doubles.
//
// A product p of the window is p = x * 2^lsb with a whole x, |x| < 2^88 (sparse/window.h). With
//
//   t = x + 3 * 2^102     in [2^103, 2^104), where doubles are 2^51 apart: t = 3 * 2^102 + h * 2^51
//   r = x - h * 2^51      exact, |r| <= 2^50
//   u = r + 3 * 2^51      in [2^52, 2^53), where doubles are 1 apart:      u = 3 * 2^51 + l
//
// h is x / 2^51 rounded to a whole number, and inside a binade the bits of a double count its
// steps, so bits(t) is h and a constant, bits(u) is l and a constant. Every subtraction above is
// exact: t - 3 * 2^102 is a multiple of 2^51 of at most 38 bits; and where |x| >= 2^50, x is a
// multiple of 2^-2 or more and so is r, which has at most 52 bits then; below, h is 0. So l is r,
// and x = h * 2^51 + l, if and only if x is whole; that and |x| < 2^88 are what ToFixed() asks.
//
// When 64 bits suffice: |h| <= 2^37 and |l| <= 2^50, so the sums of 2^9 addends are at most 2^46
// and 2^59 in magnitude. The sums of bits are made modulo 2^64, and the constants are taken off at
// the end.
//
// Seven operations on doubles and two 64-bit adds, where a conversion to 128 bits takes some sixty
// integer instructions: on 8.0, 9.0 and 10.0, 64 doubles and 64 32-bit integers per multiprocessor
// and clock. GPUs for graphics (8.6, 8.9, 12.0) have few units for doubles and are slower with it.
// Host and device; neither may contract or reorder.
#ifndef SPARSEAGG_CUDA_KERNELS_ROWS_SPLIT_SUM_H_
#define SPARSEAGG_CUDA_KERNELS_ROWS_SPLIT_SUM_H_

#include <cstdint>

#include "base/host_device.h"
#include "sparse/float_format.h"

namespace sparseagg::gpu {

inline constexpr uint64_t kSplitAddendsMax = 512;
// |lsb| at most: products of two 32-bit floats times 2^-lsb are normal doubles then.
inline constexpr int kSplitLsbMax = 700;

// 2^exponent. REQUIRES: |exponent| <= 1022.
SPARSEAGG_HOST_DEVICE inline double PowerOfTwo(int exponent) {
  return BitCast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// (high + low) * unit, exactly, as a value for FinalizeValue(): whole numbers, high a multiple of
// 2^51, 0 <= low < 2^51, and unit a power of two.
struct SplitValue {
  double high;
  double low;
  double unit;

  // The sum rounded to odd keeps what decides a later rounding to at most 51 bits (Boldo and
  // Melquiond, 2008). Multiplying by `unit` is exact. Zero is +0, as RoundScaled() has it.
  SPARSEAGG_HOST_DEVICE double Round(FloatFormat format) const {
    const double sum = high + low;
    if (format.precision == kFormatF64.precision) return sum * unit;
    const double odd = ToOdd(sum) * unit;
    if (format.precision == kFormatF32.precision) return static_cast<float>(odd) + 0.0f;
    return RoundDouble(odd, format);
  }

 private:
  SPARSEAGG_HOST_DEVICE double ToOdd(double sum) const {
    const double error = low - (sum - high);  // exact: |high| >= low, or high is 0 (Dekker, 1971)
    const auto bits = BitCast<uint64_t>(sum);
    if (error == 0 || (bits & 1) != 0) return sum;
    return BitCast<double>((error > 0) == (sum > 0) ? bits + 1 : bits - 1);
  }
};

class SplitSum {
 public:
  // Adds x where it is whole and in the window; otherwise false, and 0 is added.
  SPARSEAGG_HOST_DEVICE bool Add(double x) {
    double t = x + kHigh;
    const double r = x - (t - kHigh);
    double u = r + kLow;
    const bool fits = u - kLow == r && x < kWindow && x > -kWindow;
    if (!fits) {
      t = kHigh;
      u = kLow;
    }
    high_ += BitCast<uint64_t>(t);
    low_ += BitCast<uint64_t>(u);
    return fits;
  }

  // After `addends` calls of Add(), at most kSplitAddendsMax.
  SPARSEAGG_HOST_DEVICE Int128 Total(uint32_t addends) const {
    return (static_cast<Int128>(High(addends)) << kShift) + Low(addends);
  }
  SPARSEAGG_HOST_DEVICE SplitValue Value(uint32_t addends, double unit) const {
    const int64_t low = Low(addends);
    const int64_t carry = low >> kShift;
    return {static_cast<double>(High(addends) + carry) * PowerOfTwo(kShift),
            static_cast<double>(low - (carry << kShift)), unit};
  }

 private:
  static constexpr int kShift = 51;
  static constexpr double kHigh = 0x3p102;
  static constexpr double kLow = 0x3p51;
  static constexpr double kWindow = 0x1p88;

  SPARSEAGG_HOST_DEVICE int64_t High(uint32_t addends) const {
    return static_cast<int64_t>(high_ - addends * BitCast<uint64_t>(double{kHigh}));
  }
  SPARSEAGG_HOST_DEVICE int64_t Low(uint32_t addends) const {
    return static_cast<int64_t>(low_ - addends * BitCast<uint64_t>(double{kLow}));
  }

  uint64_t high_ = 0;
  uint64_t low_ = 0;
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_ROWS_SPLIT_SUM_H_
