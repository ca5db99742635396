// What an operator is. One header of this folder defines each operator as a struct of static
// members; ops/all.h lists them. A back end is written once against this interface and instantiated
// for every operator in the list.
//
// For one row, an operator keeps `row_width` value slots (none when kValues is kNone) and, when
// kRowSlot is not kNone, one slot more. With x an entry's value, w its update's weight:
//
//   kValues  kExactSum   slot = exact sum over all entries of w * x  (integers: w and x whole
//   numbers)
//            kMin, kMax  slot = extreme over the contributors of r, with r = the sum of the
//            contributor's entries of
//                        this coordinate, rounded once to the value type; weights play no part
//            kNone       values are not looked at
//   kRowSlot kWeight     slot = exact sum of w over the contributors that hold the row, each
//   counted once
//            kOne        slot = number of those contributors
//
// Real() and Whole() lower the exact slots of one coordinate to the result, for floating and
// integer types. `Exact` is any type with `double Round(FloatFormat)` (rounds the exact value once)
// and `Int128 ToInteger()`.
//   Real   returns a number of the format; infinity when the exact result is beyond it
//   Whole  returns the exact or rounded integer; the caller checks or wraps it
// `total_weight` is the exact sum of the weights of all contributors of the round, rounded once to
// f64.
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
  { Op::kIsMean } -> std::convertible_to<bool>;  // divides: has no meaning for modular integers
};

// Duplicates inside one update must be gathered before this operator sees the update.
template <class Op>
inline constexpr bool kPerUpdate =
    Op::kValues == ValueSlots::kMin || Op::kValues == ValueSlots::kMax;

// Whether the weight of an update has a part in the result. Where it has none, any finite weight
// that is not negative will do.
template <class Op>
inline constexpr bool kUsesWeights =
    Op::kValues == ValueSlots::kExactSum || Op::kRowSlot == RowSlot::kWeight;

// The quotient of two exact sums as the contract defines it: each rounded once to f64, divided in
// IEEE f64. A zero divisor means that all weights are zero, so the dividend is zero too; the mean
// is then +0.
SPARSEAGG_HOST_DEVICE inline double Quotient(double dividend, double divisor) {
  return divisor == 0.0 ? 0.0 : dividend / divisor;
}

// Nearest whole number, ties to even.
SPARSEAGG_HOST_DEVICE inline Int128 NearestWhole(double value) {
  const Scaled parts = TakeApart(value);
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
