// Floating-point formats in integer arithmetic: splits a value into significand and exponent, and
// rounds an exact integer multiple of a power of two to a format, once, to nearest with ties to
// even. Everything that decides the bits of a floating result is here. Host and device.
#ifndef SPARSEAGG_SPARSE_FLOAT_FORMAT_H_
#define SPARSEAGG_SPARSE_FLOAT_FORMAT_H_

#include <cstdint>
#include <cstring>

#include "base/host_device.h"

namespace sparseagg {

using Int128 = __int128;
using UInt128 = unsigned __int128;

// A binary format: values are m * 2^q with |m| < 2^precision, q >= min_exponent, and |value| <
// 2^(max_exponent + 1).
struct FloatFormat {
  int precision;     // bits of the significand, the hidden one counted
  int min_exponent;  // of the last bit of a subnormal number
  int max_exponent;  // of the first bit of the largest number
};

inline constexpr FloatFormat kFormatF16{11, -24, 15};
inline constexpr FloatFormat kFormatBF16{8, -133, 127};
inline constexpr FloatFormat kFormatF32{24, -149, 127};
inline constexpr FloatFormat kFormatF64{53, -1074, 1023};

template <class To, class From>
SPARSEAGG_HOST_DEVICE inline To BitCast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

// value == significand * 2^exponent, exactly. |significand| < 2^63.
struct Scaled {
  int64_t significand;
  int32_t exponent;
};

// Splits a finite double into significand and exponent. The significand of a normal number has all
// 53 bits.
SPARSEAGG_HOST_DEVICE inline Scaled Decompose(double value) {
  const uint64_t bits = BitCast<uint64_t>(value);
  const int32_t biased = static_cast<int32_t>(bits >> 52) & 0x7FF;
  const int64_t fraction = static_cast<int64_t>(bits & ((uint64_t{1} << 52) - 1));
  const int64_t magnitude = biased == 0 ? fraction : fraction | (int64_t{1} << 52);
  return {(bits >> 63) != 0 ? -magnitude : magnitude, (biased == 0 ? 1 : biased) - 1075};
}

SPARSEAGG_HOST_DEVICE inline bool IsFiniteBits(double value) {
  return ((BitCast<uint64_t>(value) >> 52) & 0x7FF) != 0x7FF;
}

// Number of bits up to the highest one set; 0 for 0.
SPARSEAGG_HOST_DEVICE inline int BitWidth(UInt128 value) {
  const uint64_t high = static_cast<uint64_t>(value >> 64);
  const uint64_t low = static_cast<uint64_t>(value);
  if (high != 0) return 128 - CountLeadingZeros(high);
  return low == 0 ? 0 : 64 - CountLeadingZeros(low);
}

// Returns 2^exponent * integer for an integer of at most 2^53, even where 2^exponent itself is not
// a double. Returns infinity when the product is too large. REQUIRES: the product is a multiple of
// 2^-1074.
SPARSEAGG_HOST_DEVICE inline double ScaleExact(uint64_t integer, int exponent) {
  if (integer == 0) return 0.0;
  const int top = 63 - CountLeadingZeros(integer);  // position of the first bit
  const int first = top + exponent;                 // its power of two
  if (first > 1023) return BitCast<double>(uint64_t{0x7FF} << 52);
  // The bits of a subnormal are its multiple of 2^-1074. The shift is at most 51 here; the mask
  // shows that to tools that do not infer it from the bound of `first`.
  if (first < -1022) return BitCast<double>(integer << ((exponent + 1074) & 63));
  const uint64_t significand = top > 52 ? integer >> 1 : integer << (52 - top);  // top 53: 2^53
  const uint64_t fraction = significand & ((uint64_t{1} << 52) - 1);
  return BitCast<double>((static_cast<uint64_t>(first + 1023) << 52) | fraction);
}

// Rounds magnitude * 2^exponent (plus a non-zero amount below its last bit when `sticky`) to the
// format: to nearest, with ties to even; subnormals are kept, and a value beyond the range becomes
// infinity. The result, a double, is a number of the format. REQUIRES: with `sticky`, magnitude has
// at least 64 bits.
SPARSEAGG_HOST_DEVICE inline double RoundMagnitude(UInt128 magnitude, int exponent, bool sticky,
                                                   FloatFormat format) {
  if (magnitude == 0) return 0.0;
  const int top = exponent + BitWidth(magnitude) - 1;
  int last = top - (format.precision - 1);  // power of two of the last bit kept
  if (last < format.min_exponent) last = format.min_exponent;
  const int drop = last - exponent;  // bits to drop
  double result;
  if (drop <= 0) {
    result =
        ScaleExact(static_cast<uint64_t>(magnitude), exponent);  // at most `precision` bits: exact
  } else {
    const UInt128 kept = drop >= 128 ? 0 : magnitude >> drop;
    const UInt128 half = drop > 128 ? 0 : UInt128{1} << (drop - 1);
    const UInt128 rest = drop >= 128 ? magnitude : magnitude & ((UInt128{1} << drop) - 1);
    bool up = false;
    if (half != 0) up = rest > half || (rest == half && (sticky || (kept & 1) != 0));
    result = ScaleExact(static_cast<uint64_t>(kept) + (up ? 1 : 0), last);
  }
  const double limit = ScaleExact(1, format.max_exponent + 1);  // infinity for f64
  return result >= limit ? BitCast<double>(uint64_t{0x7FF} << 52) : result;
}

// Rounds value * 2^exponent to the format, once. Zero is +0.
SPARSEAGG_HOST_DEVICE inline double RoundScaled(Int128 value, int exponent, FloatFormat format) {
  const bool negative = value < 0;
  const UInt128 magnitude = negative ? -static_cast<UInt128>(value) : static_cast<UInt128>(value);
  const double rounded = RoundMagnitude(magnitude, exponent, false, format);
  return negative && rounded != 0.0 ? -rounded : rounded;
}

// Rounds a double to the format, once; infinities stay, zero becomes +0.
SPARSEAGG_HOST_DEVICE inline double RoundDouble(double value, FloatFormat format) {
  if (!IsFiniteBits(value)) return value;
  const Scaled parts = Decompose(value);
  return RoundScaled(parts.significand, parts.exponent, format);
}

// Maps a double to an integer with the same order: a < b exactly when OrderKey(a) < OrderKey(b).
// REQUIRES: neither NaN nor -0.
SPARSEAGG_HOST_DEVICE inline int64_t OrderKey(double value) {
  const int64_t bits = BitCast<int64_t>(value);
  return bits >= 0 ? bits : INT64_MIN - bits;
}
SPARSEAGG_HOST_DEVICE inline double FromOrderKey(int64_t key) {
  return BitCast<double>(key >= 0 ? key : INT64_MIN - key);
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_FLOAT_FORMAT_H_
