// Joins each cell and its error cells to one double, which rounds as the exact sum does. Compiled
// once for every instruction set: see simd-inl.h.
#if defined(SPARSEAGG_CPU_KERNELS_SETTLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARSEAGG_CPU_KERNELS_SETTLE_INL_H_
#undef SPARSEAGG_CPU_KERNELS_SETTLE_INL_H_
#else
#define SPARSEAGG_CPU_KERNELS_SETTLE_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cpu/kernels/simd-inl.h"
#include "cpu/state/error_cells.h"
#include "cpu/state/exact_cell.h"
#include "sparse/wide_integer.h"

HWY_BEFORE_NAMESPACE();
namespace sparseagg {
namespace HWY_NAMESPACE {  // NOLINT(google-readability-namespace-comments)
namespace hn = hwy::HWY_NAMESPACE;

template <class Op, class V>
struct SettleKernels {
  // Sums that are rounded once more, to less than a double, are rounded to odd; the others to the
  // nearest double.
  static constexpr bool kToOdd = !Op::kIsMean && !std::is_same_v<V, double>;

  // Cell i of `values` is cell first + i of `errors`. Empty cells stay empty.
  static void Settle(std::byte* values, const ErrorCells& errors, size_t first, size_t n) {
    const DoubleTag d;
    auto* HWY_RESTRICT cells = reinterpret_cast<double*>(values);
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const auto before = hn::LoadU(d, cells + i);
      const Pair sum = SumOf(before, errors, first + i);
      const size_t unknown = BitsOf(hn::And(AreHeld(before), IsUnknown(sum)));
      HWY_ALIGN double known[kLanes];
      hn::Store(hn::IfThenElse(hn::RebindMask(d, AreHeld(before)), Rounded(sum), before), d, known);
      for (size_t lane = 0; HWY_UNLIKELY(unknown != 0) && lane < kLanes; ++lane) {
        if ((unknown >> lane & 1) != 0)
          known[lane] = SettleOne(cells[i + lane], errors, first + i + lane);
      }
      hn::StoreU(hn::Load(d, known), d, cells + i);
    }
    for (; i < n; ++i) {
      if (BitCast<uint64_t>(cells[i]) != uint64_t{1} << 63) {
        cells[i] = SettleOne(cells[i], errors, first + i);
      }
    }
  }

 private:
  // A sum: high + low and a rest of at most `more`. `high` is the double nearest to high + low.
  struct Pair {
    hn::Vec<DoubleTag> high;
    hn::Vec<DoubleTag> low;
    hn::Vec<DoubleTag> more;
  };

  // Adds from the last level to the cell, which moves the large parts to the front, and then adds
  // what that leaves behind.
  static HWY_INLINE Pair SumOf(hn::Vec<DoubleTag> cell, const ErrorCells& errors, size_t at) {
    const DoubleTag d;
    const size_t levels = errors.levels();
    hn::Vec<DoubleTag> rests[ErrorCells::kLevelsMax];
    auto high = hn::LoadU(d, errors.level(levels - 1) + at);
    for (size_t k = levels - 1; k-- > 0;) {
      rests[k + 1] = AddExactly(hn::LoadU(d, errors.level(k) + at), high);
    }
    rests[0] = AddExactly(cell, high);
    auto low = rests[levels - 1];
    auto more = hn::Zero(d);
    for (size_t k = levels - 1; k-- > 0;) {
      more = hn::Add(more, hn::Abs(AddExactly(rests[k], low)));
    }
    low = AddExactly(low, high);
    return {high, low, hn::Add(more, more)};  // doubled, since these sums are themselves rounded
  }

  // Sets sum = a + sum, and returns the error.
  static HWY_INLINE hn::Vec<DoubleTag> AddExactly(hn::Vec<DoubleTag> a, hn::Vec<DoubleTag>& sum) {
    const auto before = sum;
    sum = hn::Add(a, before);
    return ErrorOf(a, before, sum);
  }

  // Returns where `more` could change the rounding.
  static HWY_INLINE hn::Mask<BitsTag> IsUnknown(const Pair& sum) {
    const DoubleTag d;
    const BitsTag du;
    const auto size = hn::Abs(sum.low);
    auto known = hn::Gt(size, sum.more);  // low's sign is known: enough to round to odd
    if constexpr (!kToOdd) {
      auto reach = hn::Add(size, sum.more);
      reach = hn::MulAdd(reach, hn::Set(d, 0x1p-50), reach);
      known = hn::And(hn::Eq(hn::Add(sum.high, reach), sum.high),
                      hn::Eq(hn::Sub(sum.high, reach), sum.high));
    }
    return hn::RebindMask(du, hn::Not(hn::Or(known, hn::Eq(sum.more, hn::Zero(d)))));
  }

  static HWY_INLINE hn::Vec<DoubleTag> Rounded(const Pair& sum) {
    if constexpr (!kToOdd) return sum.high;
    const DoubleTag d;
    const BitsTag du;
    const auto one = hn::Set(du, uint64_t{1});
    const auto bits = hn::BitCast(du, sum.high);
    const auto inwards = hn::ShiftRight<63>(hn::Xor(bits, hn::BitCast(du, sum.low)));
    const auto odd = hn::Sub(hn::Add(bits, one), hn::Add(inwards, inwards));
    const auto even = hn::Eq(hn::And(bits, one), hn::Zero(du));
    const auto moves = hn::And(even, hn::RebindMask(du, hn::Ne(sum.low, hn::Zero(d))));
    return hn::BitCast(d, hn::IfThenElse(moves, odd, bits));
  }

  static HWY_NOINLINE double SettleOne(double cell, const ErrorCells& errors, size_t at) {
    WideInteger sum;
    sum.Add(cell);
    for (size_t k = 0; k < errors.levels(); ++k) sum.Add(errors.level(k)[at]);
    const double high = sum.ToDouble();
    sum.Add(-high);
    return kToOdd ? RoundToOdd(high, sum.ToDouble()) : high;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace sparseagg
HWY_AFTER_NAMESPACE();

#endif  // SPARSEAGG_CPU_KERNELS_SETTLE_INL_H_
