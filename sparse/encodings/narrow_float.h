// Conversions of single values between f32 and the 16-bit types, written so that loops over them
// are vectorized. sparse/values.h has the same conversions as the numerics contract states them,
// through f64.
#ifndef SPARSEAGG_SPARSE_ENCODINGS_NARROW_FLOAT_H_
#define SPARSEAGG_SPARSE_ENCODINGS_NARROW_FLOAT_H_

#include <bit>
#include <cstdint>

namespace sparseagg {

inline float FloatOfBF16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Multiplying by 2^112 changes the exponent's bias from 15 to 127, subnormals included.
inline float FloatOfF16(uint16_t bits) {
  const auto magnitude =
      std::bit_cast<uint32_t>(std::bit_cast<float>((bits & 0x7FFFu) << 13) * 0x1p112f);
  const uint32_t special = (bits & 0x7C00u) == 0x7C00u ? 0x7F800000u : 0u;  // infinity or NaN
  return std::bit_cast<float>(magnitude | special | (bits & 0x8000u) << 16);
}

// Rounds to nearest, ties to even; to infinity if the result is beyond the type. REQUIRES: no NaN.
inline uint16_t BF16OfFloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

// Rounds to nearest, ties to even; to infinity if the result is beyond the type. REQUIRES: no NaN.
inline uint16_t F16OfFloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);  // 65520 and above
  if (magnitude < 0x38800000u) {  // subnormal: the addition rounds to multiples of 2^-24
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3F000000u));
  }
  const uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1) - 0x38000000u;
  return static_cast<uint16_t>(sign | rounded >> 13);
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ENCODINGS_NARROW_FLOAT_H_
