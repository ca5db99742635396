// Value types as C++ types: how each is widened for exact arithmetic and narrowed from a rounded
// result. One dispatch, WithValueType(), turns the run-time ValueType into a template argument.
// Host and device.
#ifndef SPARSEAGG_SPARSE_VALUES_H_
#define SPARSEAGG_SPARSE_VALUES_H_

#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/host_device.h"
#include "sparse/float_format.h"
#include "sparse/types.h"

namespace sparseagg {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

// The value of a binary16; infinities and NaN keep their kind.
SPARSEAGG_HOST_DEVICE inline double Widen(F16 value) {
  const uint32_t exponent = (value.bits >> 10) & 0x1F;
  const uint32_t fraction = value.bits & 0x3FF;
  double magnitude;
  if (exponent == 0x1F) {
    magnitude = BitCast<double>((uint64_t{0x7FF} << 52) | (static_cast<uint64_t>(fraction) << 42));
  } else if (exponent == 0) {
    magnitude = ScaleExact(fraction, -24);
  } else {
    magnitude = ScaleExact(fraction | 0x400, static_cast<int>(exponent) - 25);
  }
  return (value.bits >> 15) != 0 ? -magnitude : magnitude;
}
SPARSEAGG_HOST_DEVICE inline double Widen(BF16 value) {
  return BitCast<float>(static_cast<uint32_t>(value.bits) << 16);
}
SPARSEAGG_HOST_DEVICE inline double Widen(float value) { return value; }
SPARSEAGG_HOST_DEVICE inline double Widen(double value) { return value; }

template <class V>
struct ValueTraits;

template <class V, ValueType kT>
struct IntegerTraits {
  static constexpr ValueType kType = kT;
  static constexpr bool kFloating = false;
  using Wide = Int128;
};
template <>
struct ValueTraits<int32_t> : IntegerTraits<int32_t, ValueType::kI32> {};
template <>
struct ValueTraits<int64_t> : IntegerTraits<int64_t, ValueType::kI64> {};
template <>
struct ValueTraits<uint32_t> : IntegerTraits<uint32_t, ValueType::kU32> {};
template <>
struct ValueTraits<uint64_t> : IntegerTraits<uint64_t, ValueType::kU64> {};

template <ValueType kT>
struct FloatTraits {
  static constexpr ValueType kType = kT;
  static constexpr bool kFloating = true;
  using Wide = double;
};
template <>
struct ValueTraits<F16> : FloatTraits<ValueType::kF16> {
  static constexpr FloatFormat kFormat = kFormatF16;
  // Converts a number of the format (a result of rounding) to its bits.
  SPARSEAGG_HOST_DEVICE static F16 Narrow(double value) {
    const uint64_t bits = BitCast<uint64_t>(value);
    const uint32_t sign = static_cast<uint32_t>(bits >> 63) << 15;
    const int biased = static_cast<int>(bits >> 52) & 0x7FF;
    if (biased == 0x7FF) return {static_cast<uint16_t>(sign | 0x7C00)};
    const int exponent = biased - 1023;
    if (exponent < -24)
      return {static_cast<uint16_t>(sign)};  // zero: the format has no other number this small
    const uint64_t significand = (bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1} << 52);
    if (exponent < -14) return {static_cast<uint16_t>(sign | (significand >> (28 - exponent)))};
    return {static_cast<uint16_t>(sign | (static_cast<uint32_t>(exponent + 15) << 10) |
                                  ((significand >> 42) & 0x3FF))};
  }
};
template <>
struct ValueTraits<BF16> : FloatTraits<ValueType::kBF16> {
  static constexpr FloatFormat kFormat = kFormatBF16;
  SPARSEAGG_HOST_DEVICE static BF16 Narrow(double value) {
    return {static_cast<uint16_t>(BitCast<uint32_t>(static_cast<float>(value)) >> 16)};
  }
};
template <>
struct ValueTraits<float> : FloatTraits<ValueType::kF32> {
  static constexpr FloatFormat kFormat = kFormatF32;
  SPARSEAGG_HOST_DEVICE static float Narrow(double value) { return static_cast<float>(value); }
};
template <>
struct ValueTraits<double> : FloatTraits<ValueType::kF64> {
  static constexpr FloatFormat kFormat = kFormatF64;
  SPARSEAGG_HOST_DEVICE static double Narrow(double value) { return value; }
};

// The type that holds one value exactly: double for floating types, Int128 for integers.
template <class V>
using WideValue = typename ValueTraits<V>::Wide;

template <class V>
SPARSEAGG_HOST_DEVICE inline WideValue<V> ToWide(V value) {
  if constexpr (ValueTraits<V>::kFloating) {
    return Widen(value);
  } else {
    return static_cast<Int128>(value);
  }
}

template <class V>
SPARSEAGG_HOST_DEVICE inline bool FitsInteger(Int128 value) {
  return value >= static_cast<Int128>(std::numeric_limits<V>::min()) &&
         value <= static_cast<Int128>(std::numeric_limits<V>::max());
}

template <class V>
struct ValueTag {
  using type = V;
};

// Calls f(ValueTag<V>{}) for the C++ type of `type`.
template <class F>
auto WithValueType(ValueType type, F&& f) {
  switch (type) {
    case ValueType::kF16:
      return f(ValueTag<F16>{});
    case ValueType::kBF16:
      return f(ValueTag<BF16>{});
    case ValueType::kF32:
      return f(ValueTag<float>{});
    case ValueType::kF64:
      return f(ValueTag<double>{});
    case ValueType::kI32:
      return f(ValueTag<int32_t>{});
    case ValueType::kI64:
      return f(ValueTag<int64_t>{});
    case ValueType::kU32:
      return f(ValueTag<uint32_t>{});
    case ValueType::kU64:
      break;
  }
  return f(ValueTag<uint64_t>{});
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_VALUES_H_
