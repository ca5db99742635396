// The arithmetic between entries, slots and results, shared by every back end: what an entry adds
// to a slot (Lift), what a contributor's coordinate is for min and max (ContributionKey), and how
// exact slots become a result (FinalizeValue). Host and device.
#ifndef SPARSEAGG_SPARSE_SLOT_MATH_H_
#define SPARSEAGG_SPARSE_SLOT_MATH_H_

#include <cstdint>
#include <type_traits>

#include "base/host_device.h"
#include "sparse/float_format.h"
#include "sparse/ops/op.h"
#include "sparse/types.h"
#include "sparse/values.h"

namespace sparseagg {

// The type of one result value: that of the input, except u64 where only contributors are counted.
template <class Op, class V>
using ResultValue = std::conditional_t<Op::kValues == ValueSlots::kNone, uint64_t, V>;

// Returns weight * value: exact for f16, bf16, f32 (at most 48 bits) and for integers (whole
// weights); the IEEE product for f64.
template <class V>
SPARSEAGG_HOST_DEVICE inline WideValue<V> Lift(V value, float weight) {
  if constexpr (ValueTraits<V>::kFloating) {
    return static_cast<double>(weight) * Widen(value);
  } else {
    return static_cast<Int128>(weight) * static_cast<Int128>(value);
  }
}

// Returns the order key of a contributor's coordinate. For floating types `rounded` is the sum of
// its entries, rounded once.
SPARSEAGG_HOST_DEVICE inline Int128 ContributionKey(double rounded) {
  return OrderKey(rounded == 0.0 ? 0.0 : rounded);
}
// For integers `sum` is the exact sum; modular ones wrap to their type first.
template <class V>
SPARSEAGG_HOST_DEVICE inline Int128 ContributionKey(Int128 sum, IntegerOverflow overflow) {
  return overflow == IntegerOverflow::kModular ? static_cast<Int128>(static_cast<V>(sum)) : sum;
}

// The slot of a row that no contributor holds yet.
template <class Op>
SPARSEAGG_HOST_DEVICE constexpr Int128 EmptySlot() {
  constexpr Int128 kLargest = static_cast<Int128>(~static_cast<UInt128>(0) >> 1);
  if (Op::kValues == ValueSlots::kMin) return kLargest;
  if (Op::kValues == ValueSlots::kMax) return -kLargest;
  return 0;
}

// Combines two slots of the same coordinate.
template <class Op>
SPARSEAGG_HOST_DEVICE inline Int128 CombineSlots(Int128 a, Int128 b) {
  if constexpr (Op::kValues == ValueSlots::kMin) return a < b ? a : b;
  if constexpr (Op::kValues == ValueSlots::kMax) return a < b ? b : a;
  return a + b;
}

// The outcome of FinalizeValue().
enum class Finalized : uint8_t {
  kOk,
  kInfinite,  // the exact result is beyond the range of the floating type; an infinity is written
  kOverflow,  // a checked integer does not fit; nothing is written
};

// Finalizes one coordinate: rounds or checks its exact value and writes the result. `row` is the
// exact row slot (any value when the operator has none).
template <class Op, class V, class Exact>
SPARSEAGG_HOST_DEVICE inline Finalized FinalizeValue(const Exact& value, const Exact& row,
                                                     double total_weight, IntegerOverflow overflow,
                                                     ResultValue<Op, V>* out) {
  using R = ResultValue<Op, V>;
  if constexpr (ValueTraits<R>::kFloating) {
    const double result = Op::FinalizeFloat(value, row, total_weight, ValueTraits<R>::kFormat);
    *out = ValueTraits<R>::Narrow(result);
    return IsFiniteBits(result) ? Finalized::kOk : Finalized::kInfinite;
  } else {
    const Int128 result = Op::FinalizeInteger(value, row, total_weight);
    if (overflow == IntegerOverflow::kChecked && !FitsInteger<R>(result))
      return Finalized::kOverflow;
    *out = static_cast<R>(result);
    return Finalized::kOk;
  }
}

// An exact value for FinalizeValue() that has no side entries: slot * 2^lsb.
struct SlotValue {
  Int128 slot;
  int lsb;
  SPARSEAGG_HOST_DEVICE double Round(FloatFormat format) const {
    return RoundScaled(slot, lsb, format);
  }
  SPARSEAGG_HOST_DEVICE Int128 ToInteger() const { return slot; }
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_SLOT_MATH_H_
