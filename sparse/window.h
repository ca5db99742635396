// Windowed integers: the fast exact accumulator.
//
// A slot is a 128-bit integer that counts multiples of 2^lsb. A product that is such a multiple and
// below 2^(lsb + kWindowValueBits) in magnitude is added as an integer: exactly, and with the same
// result in every order. Any other product goes, as a whole, to the side table (sparse/partial.h).
// The window affects speed, never the bits of a result.
//
//   bit   127 126        126-38=88                                0
//         sign | room for 2^38 addends | a product of the window  |        bit 0 is worth 2^lsb
//
// Host and device.
#ifndef SPARSEAGG_SPARSE_WINDOW_H_
#define SPARSEAGG_SPARSE_WINDOW_H_

#include <cstdint>

#include "base/host_device.h"
#include "sparse/float_format.h"

namespace sparseagg {

inline constexpr int kWindowValueBits = 88;
// The largest number of addends of one slot. It also keeps sums of integers (64 bits times a weight
// of 24 bits) within a slot.
inline constexpr uint64_t kAddendsMax = uint64_t{1} << 38;

// Converts `value` to a number of multiples of 2^lsb. Returns false, leaving `fixed` unchanged,
// when the window does not hold it.
SPARSEAGG_HOST_DEVICE inline bool ToFixed(double value, int lsb, Int128* fixed) {
  const Scaled parts = Decompose(value);
  if (parts.significand == 0) {
    *fixed = 0;
    return true;
  }
  const int shift = parts.exponent - lsb;
  if (shift >= 0) {
    if (shift > kWindowValueBits - 53) return false;
    *fixed =
        static_cast<Int128>(static_cast<UInt128>(static_cast<Int128>(parts.significand)) << shift);
    return true;
  }
  if (shift <= -53) return false;
  const uint64_t magnitude =
      static_cast<uint64_t>(parts.significand < 0 ? -parts.significand : parts.significand);
  if (CountTrailingZeros(magnitude) < -shift) return false;
  *fixed = parts.significand >> -shift;
  return true;
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_WINDOW_H_
