// Defines what an operator is. Each header of this folder defines one operator as a struct of
// static members; ops/all.h lists them. A back end is written once against this interface and
// instantiated for every operator in the list.
//
// For one row, an operator keeps `row_width` value slots (none when kValues is kNone) and, unless
// kRowSlot is kNone, one row slot. With x an entry's value and w its update's weight, they hold:
//
//   kValues
//     kExactSum   the exact sum of w * x over all entries (integers: w and x are whole numbers)
//     kMin, kMax  the extreme of r over the contributors, where r is the sum of a contributor's
//                 entries of this coordinate, rounded once to the value type; weights are ignored
//     kNone       nothing; values are ignored
//   kRowSlot
//     kWeight     the exact sum of w over the contributors that hold the row, each counted once
//     kOne        the number of those contributors
//
// FinalizeFloat() and FinalizeInteger() turn the exact slots of one coordinate into the result, for
// floating and integer types:
//
// * FinalizeFloat() returns a number of the format, or infinity when the exact result is beyond it.
// * FinalizeInteger() returns the exact or rounded integer; the caller checks or wraps it.
//
// `Exact` is any type with `double Round(FloatFormat)`, which rounds the exact value once, and
// `Int128 ToInteger()`. `total_weight` is the exact sum of the weights of all contributors of the
// round, rounded once to f64.
#ifndef SPARSEAGG_SPARSE_OPS_OP_H_
#define SPARSEAGG_SPARSE_OPS_OP_H_

#include <concepts>
#include <cstdint>
#include <string_view>

#include "base/host_device.h"
#include "sparse/float_format.h"

namespace sparseagg {

enum class ValueSlots : uint8_t { kNone, kExactSum, kMin, kMax };
enum class RowSlot : uint8_t { kNone, kWeight, kOne };

template <class Op>
concept ReduceOp = requires {
  { Op::kName } -> std::convertible_to<std::string_view>;
  { Op::kValues } -> std::convertible_to<ValueSlots>;
  { Op::kRowSlot } -> std::convertible_to<RowSlot>;
  { Op::kIsMean } -> std::convertible_to<bool>;  // divides, so modular integers are refused
};

// Whether the duplicates within one update must be summed before the operator is applied.
template <class Op>
inline constexpr bool kNeedsUniqueRows =
    Op::kValues == ValueSlots::kMin || Op::kValues == ValueSlots::kMax;

// Whether the weight of an update affects the result. If not, any finite, non-negative weight is
// accepted.
template <class Op>
inline constexpr bool kUsesWeights =
    Op::kValues == ValueSlots::kExactSum || Op::kRowSlot == RowSlot::kWeight;

// The quotient of two exact sums, as docs/numerics.md defines it: each is rounded once to f64, and
// they are divided in IEEE f64. A zero divisor means that all weights are zero, so the dividend is
// zero, too, and the mean is +0.
SPARSEAGG_HOST_DEVICE inline double Quotient(double dividend, double divisor) {
  return divisor == 0.0 ? 0.0 : dividend / divisor;
}

// Rounds to the nearest integer, ties to even. Values of 2^123 and more in magnitude, which no
// integer type holds, become 2^126 with their sign.
SPARSEAGG_HOST_DEVICE inline Int128 RoundToInteger(double value) {
  const Scaled parts = Decompose(value);
  if (parts.exponent >= 0) {
    return parts.exponent > 70
               ? (parts.significand < 0 ? -(Int128{1} << 126) : Int128{1} << 126)
               : static_cast<Int128>(parts.significand) * (Int128{1} << parts.exponent);
  }
  const bool negative = parts.significand < 0;
  const uint64_t magnitude =
      static_cast<uint64_t>(negative ? -parts.significand : parts.significand);
  const int drop = -parts.exponent;
  if (drop > 54) return 0;
  const uint64_t kept = magnitude >> drop;
  const uint64_t rest = magnitude & ((uint64_t{1} << drop) - 1);
  const uint64_t half = uint64_t{1} << (drop - 1);
  const uint64_t rounded = kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0);
  return negative ? -static_cast<Int128>(rounded) : static_cast<Int128>(rounded);
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_OPS_OP_H_
