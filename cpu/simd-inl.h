// Vectors of doubles: values widened and multiplied exactly, sums with their errors.
// Compiled once for every instruction set, in its namespace (Highway's foreach_target); the guard
// therefore lets it in again each time.
#if defined(SPARSEAGG_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARSEAGG_CPU_SIMD_INL_H_
#undef SPARSEAGG_CPU_SIMD_INL_H_
#else
#define SPARSEAGG_CPU_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cpu/cells.h"
#include "sparse/values.h"

HWY_BEFORE_NAMESPACE();
namespace sparseagg {
namespace HWY_NAMESPACE {  // NOLINT(google-readability-namespace-comments)
namespace hn = hwy::HWY_NAMESPACE;

// Entries that are added between two looks at their rounding errors.
inline constexpr size_t kGroup = 8;

using DoubleTag = hn::CappedTag<double, kGroup>;
inline constexpr size_t kLanes = hn::MaxLanes(DoubleTag());

HWY_INLINE hn::Vec<DoubleTag> LoadWide(DoubleTag d, const double* values) {
  return hn::LoadU(d, values);
}
HWY_INLINE hn::Vec<DoubleTag> LoadWide(DoubleTag d, const float* values) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, DoubleTag>(), values));
}
HWY_INLINE hn::Vec<DoubleTag> LoadWide(DoubleTag d, const BF16* values) {
  const hn::Rebind<float, DoubleTag> df;
  const hn::Rebind<hwy::bfloat16_t, DoubleTag> db;
  const auto narrow = hn::LoadU(db, reinterpret_cast<const hwy::bfloat16_t*>(values));
  return hn::PromoteTo(d, hn::PromoteTo(df, narrow));
}
HWY_INLINE hn::Vec<DoubleTag> LoadWide(DoubleTag d, const F16* values) {
  const hn::Rebind<float, DoubleTag> df;
  const hn::Rebind<hwy::float16_t, DoubleTag> dh;
  const auto narrow = hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(values));
  return hn::PromoteTo(d, hn::PromoteTo(df, narrow));
}

// True when a product is so large that it must go to the side table whole; only f64 has such.
template <class V>
HWY_INLINE bool AnyBeyondCells(DoubleTag d, hn::Vec<DoubleTag> products) {
  if constexpr (!std::is_same_v<V, double>) return false;
  return !hn::AllTrue(d, hn::Lt(hn::Abs(products), hn::Set(d, kAddendLimit)));
}

// weight * value, never -0.0. With f64 values the product may be a tiny negative number that rounds
// to -0.0, also when a zero is added in the same rounding.
template <class V>
HWY_INLINE hn::Vec<DoubleTag> Product(DoubleTag d, hn::Vec<DoubleTag> weight, const V* values) {
  if constexpr (std::is_same_v<V, double>) {
    return hn::Add(hn::Mul(weight, LoadWide(d, values)), hn::Zero(d));
  } else {
    return hn::MulAdd(weight, LoadWide(d, values), hn::Zero(d));
  }
}

// sums += addends, lane by lane; returns the rounding errors.
HWY_INLINE hn::Vec<DoubleTag> AddExact(hn::Vec<DoubleTag>& sums, hn::Vec<DoubleTag> addends) {
  const auto before = sums;
  sums = hn::Add(before, addends);
  const auto taken = hn::Sub(sums, before);
  return hn::Add(hn::Sub(before, hn::Sub(sums, taken)), hn::Sub(addends, taken));
}

HWY_INLINE bool AllZero(DoubleTag d, hn::Vec<DoubleTag> v) {
  return hn::AllTrue(d, hn::Eq(v, hn::Zero(d)));
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

// The lanes of `mask`, moved together at the front. Highway 1.0.3's own Compress() copies its table
// to the stack at every call when g++ 12 compiles it: 30 ns instead of 1.
HWY_INLINE auto CompressLanes(hn::RebindToUnsigned<DoubleTag> du, size_t mask) {
  const hn::Rebind<uint32_t, DoubleTag> narrow;
  return hn::IndicesFromVec(du, hn::PromoteTo(du, hn::LoadU(narrow, kCompressTable.lanes[mask])));
}

}  // namespace HWY_NAMESPACE
}  // namespace sparseagg
HWY_AFTER_NAMESPACE();

#endif  // SPARSEAGG_CPU_SIMD_INL_H_
