// Vectors of doubles: values widened and multiplied exactly, sums with their errors.
// Compiled once for every instruction set, in its namespace (Highway's foreach_target); the guard
// therefore lets it in again each time.
#if defined(SPARSEAGG_CPU_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARSEAGG_CPU_KERNELS_SIMD_INL_H_
#undef SPARSEAGG_CPU_KERNELS_SIMD_INL_H_
#else
#define SPARSEAGG_CPU_KERNELS_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cpu/state/cells.h"
#include "sparse/values.h"

HWY_BEFORE_NAMESPACE();
namespace sparseagg {
namespace HWY_NAMESPACE {  // NOLINT(google-readability-namespace-comments)
namespace hn = hwy::HWY_NAMESPACE;

#undef SPARSEAGG_HAS_AVX512
#define SPARSEAGG_HAS_AVX512 (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)

// Entries that are added between two checks of their rounding errors.
inline constexpr size_t kGroup = 8;

using DoubleTag = hn::CappedTag<double, kGroup>;
inline constexpr size_t kLanes = hn::MaxLanes(DoubleTag());

// A vector of as many values as two vectors of doubles have.
using FloatTag = hn::CappedTag<float, 2 * kGroup>;

template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const float* values) {
  return hn::LoadU(d, values);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const BF16* values) {
  const hn::Rebind<hwy::bfloat16_t, D> narrow;
  return hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const hwy::bfloat16_t*>(values)));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const F16* values) {
  const hn::Rebind<hwy::float16_t, D> narrow;
  return hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(values)));
}

HWY_INLINE hn::Vec<DoubleTag> LoadWide(DoubleTag d, const double* values) {
  return hn::LoadU(d, values);
}
template <class V>
HWY_INLINE hn::Vec<DoubleTag> LoadWide(DoubleTag d, const V* values) {
  return hn::PromoteTo(d, LoadFloats(hn::Rebind<float, DoubleTag>(), values));
}

// Returns whether a product is so large that it must go to the side table whole; only products of
// f64 can be.
template <class V>
HWY_INLINE bool AnyBeyondCells(DoubleTag d, hn::Vec<DoubleTag> products) {
  if constexpr (!std::is_same_v<V, double>) return false;
  return !hn::AllTrue(d, hn::Lt(hn::Abs(products), hn::Set(d, kAddendLimit)));
}

// Returns weight * value, never -0.0. With f64 values the product may be a tiny negative number
// that rounds to -0.0, also when a zero is added in the same rounding.
template <class V>
HWY_INLINE hn::Vec<DoubleTag> Product(DoubleTag d, hn::Vec<DoubleTag> weight, const V* values) {
  if constexpr (std::is_same_v<V, double>) {
    return hn::Add(hn::Mul(weight, LoadWide(d, values)), hn::Zero(d));
  } else {
    return hn::MulAdd(weight, LoadWide(d, values), hn::Zero(d));
  }
}

// Returns the rounding errors of sums = before + addends (two-sum: cpu/state/cells.h).
HWY_INLINE hn::Vec<DoubleTag> ErrorOf(hn::Vec<DoubleTag> before, hn::Vec<DoubleTag> addends,
                                      hn::Vec<DoubleTag> sums) {
  const auto taken = hn::Sub(sums, before);
  return hn::Add(hn::Sub(before, hn::Sub(sums, taken)), hn::Sub(addends, taken));
}

// Finds out whether sums have errors, at a lower cost than the errors: returns bits that are not
// zero, signs aside, where before + addends != sums. A sum less its larger operand is exact
// (Fast2Sum: Dekker, A floating-point technique for extending the available precision, 1971), so
// where that difference is the other operand there is no error; which operand is larger need not be
// known when both are tried. The sign does not matter: an error is no larger than the smaller
// operand, and so cannot reverse its sign.
using BitsTag = hn::RebindToUnsigned<DoubleTag>;
HWY_INLINE hn::Vec<BitsTag> Lost(hn::Vec<DoubleTag> before, hn::Vec<DoubleTag> addends,
                                 hn::Vec<DoubleTag> sums) {
  const BitsTag du;
  return hn::Or(hn::Xor(hn::BitCast(du, hn::Sub(sums, before)), hn::BitCast(du, addends)),
                hn::Xor(hn::BitCast(du, hn::Sub(sums, addends)), hn::BitCast(du, before)));
}
HWY_INLINE bool AnyLost(hn::Vec<BitsTag> lost) {
  const BitsTag du;
  return !hn::AllTrue(du, hn::Eq(hn::ShiftLeft<1>(lost), hn::Zero(du)));
}

// Returns before + addends where that is exact. Where it is not, sets bits in `lost` (AnyLost), and
// the returned sums are unspecified. AVX-512 rounds both down and up; the two differ in more than
// the sign of a zero where anything is lost, which takes two additions where Lost() takes three.
// Rounded up, a zero has the sign that it has when rounded to nearest.
HWY_INLINE hn::Vec<DoubleTag> SumsIfExact(hn::Vec<DoubleTag> before, hn::Vec<DoubleTag> addends,
                                          hn::Vec<BitsTag>& lost) {
#if SPARSEAGG_HAS_AVX512
  const BitsTag du;
  const hn::Vec<DoubleTag> down{
      _mm512_add_round_pd(before.raw, addends.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
  const hn::Vec<DoubleTag> up{
      _mm512_add_round_pd(before.raw, addends.raw, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)};
  lost = hn::Or(lost, hn::Xor(hn::BitCast(du, down), hn::BitCast(du, up)));
  return up;
#else
  const auto sums = hn::Add(before, addends);
  lost = hn::Or(lost, Lost(before, addends, sums));
  return sums;
#endif
}

// Stores before + addends, rounded to nearest, to `sums`, and the rounding errors to `errors`.
HWY_INLINE void StoreSumsAndErrors(DoubleTag d, hn::Vec<DoubleTag> before,
                                   hn::Vec<DoubleTag> addends, double* HWY_RESTRICT sums,
                                   double* HWY_RESTRICT errors) {
  const auto nearest = hn::Add(before, addends);
  hn::StoreU(nearest, d, sums);
  hn::Store(ErrorOf(before, addends, nearest), d, errors);
}

// Returns one bit for each lane. The asm keeps g++ 12 from reading a mask that it spilled as one
// byte back as eight, seen under ThreadSanitizer.
HWY_INLINE size_t BitsOf(hn::Mask<BitsTag> mask) {
  uint8_t bits[8];
  hn::StoreMaskBits(BitsTag(), mask, bits);
  uint8_t byte = bits[0];
  asm("" : "+r"(byte));
  return byte;
}

// Returns which of these cells are held (cpu/state/cells.h).
HWY_INLINE hn::Mask<BitsTag> AreHeld(hn::Vec<DoubleTag> cells) {
  const BitsTag du;
  return hn::Ne(hn::BitCast(du, cells), hn::Set(du, uint64_t{1} << 63));
}

// lanes[mask]: the positions of the bits of `mask`, ascending, then the others.
struct CompressTable {
  uint32_t lanes[256][8];
  constexpr CompressTable() : lanes() {
    for (uint32_t mask = 0; mask < 256; ++mask) {
      uint32_t n = 0;
      for (uint32_t set = 0; set < 2; ++set) {
        for (uint32_t bit = 0; bit < 8; ++bit) {
          if ((mask >> bit & 1) != set) lanes[mask][n++] = bit;
        }
      }
    }
  }
};
inline constexpr CompressTable kCompressTable;

// Returns the lanes in the order that moves those of `mask` to the front. (Highway 1.0.3's own
// Compress(), and its Iota(), go through the stack when g++ 12 compiles them: 13 to 30 ns.)
HWY_INLINE hn::Vec<BitsTag> LanesOf(size_t mask) {
  const hn::Rebind<uint32_t, DoubleTag> narrow;
  return hn::PromoteTo(BitsTag(), hn::LoadU(narrow, kCompressTable.lanes[mask]));
}

// The reverse: for each lane of `mask`, its place among those lanes when they are packed at the
// front; negative for the other lanes.
struct ExpandTable {
  int8_t lanes[256][8];  // bytes take few lines of the first-level cache, which cells need
  constexpr ExpandTable() : lanes() {
    for (uint32_t mask = 0; mask < 256; ++mask) {
      int8_t n = 0;
      for (uint32_t bit = 0; bit < 8; ++bit) lanes[mask][bit] = (mask >> bit & 1) != 0 ? n++ : -1;
    }
  }
};
inline constexpr ExpandTable kExpandTable;

// Spreads the first lanes of `packed`, in order, over the lanes whose bits are set in `mask`; the
// others become -0.0.
template <class D>
HWY_INLINE hn::Vec<D> SpreadOver(D d, size_t mask, hn::Vec<D> packed) {
  const auto none = hn::Set(d, hn::TFromD<D>{-0.0});
#if SPARSEAGG_HAS_AVX512
  if constexpr (sizeof(hn::TFromD<D>) == sizeof(double)) {
    return hn::Vec<D>{_mm512_mask_expand_pd(none.raw, static_cast<__mmask8>(mask), packed.raw)};
  } else {
    return hn::Vec<D>{_mm512_mask_expand_ps(none.raw, static_cast<__mmask16>(mask), packed.raw)};
  }
#else
  const hn::RebindToSigned<D> signed_tag;
  const hn::Rebind<int8_t, D> bytes;
  const hn::Rebind<int32_t, D> words;
  const auto narrow = hn::PromoteTo(words, hn::LoadU(bytes, kExpandTable.lanes[mask]));
  hn::Vec<hn::RebindToSigned<D> > lanes;
  if constexpr (sizeof(hn::TFromD<D>) == sizeof(double)) {
    lanes = hn::PromoteTo(signed_tag, narrow);
  } else {
    lanes = narrow;
  }
  const auto in_range = hn::And(lanes, hn::Set(signed_tag, hn::MaxLanes(d) - 1));
  const auto spread = hn::TableLookupLanes(packed, hn::IndicesFromVec(d, in_range));
  // Selects by integers: as a floating-point number -1 is a NaN, which Highway without vectors does
  // not treat as negative.
  return hn::BitCast(d, hn::IfNegativeThenElse(lanes, hn::BitCast(signed_tag, none),
                                               hn::BitCast(signed_tag, spread)));
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace sparseagg
HWY_AFTER_NAMESPACE();

#endif  // SPARSEAGG_CPU_KERNELS_SIMD_INL_H_
