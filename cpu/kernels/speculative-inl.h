// Speculative additions: many are made without computing their errors, and then the processor's
// flag tells whether any of them was rounded. That is rare; if one was, the cells are restored, and
// the additions are made again one by one. Reading the flag costs some 20 cycles, and saving the
// former cells one store each; computing whether a sum is exact takes three times as many
// operations as the sum. Where a whole window can be summed again, the former cells need not be
// saved either (cpu/windowed/speculation_backoff.h). Compiled once for every instruction set: see
// simd-inl.h.
#if defined(SPARSEAGG_CPU_KERNELS_SPECULATIVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARSEAGG_CPU_KERNELS_SPECULATIVE_INL_H_
#undef SPARSEAGG_CPU_KERNELS_SPECULATIVE_INL_H_
#else
#define SPARSEAGG_CPU_KERNELS_SPECULATIVE_INL_H_
#endif

#include <algorithm>
#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cpu/kernels/rounding_flag.h"
#include "cpu/kernels/simd-inl.h"
#include "cpu/state/cells.h"
#include "cpu/state/side_table.h"

HWY_BEFORE_NAMESPACE();
namespace sparseagg {
namespace HWY_NAMESPACE {  // NOLINT(google-readability-namespace-comments)

// Most cells of one speculation: their former values stay in the first-level cache beside them.
inline constexpr size_t kSpeculativeCells = 512;
// With fewer cells, reading the flag costs more than it saves.
inline constexpr size_t kSpeculativeCellsMin = 64;
// Most groups that are added without speculation after repeated failures.
inline constexpr uint32_t kSkippedGroupsMax = 64;

// True where sums are doubles and products are exact; products of f64 are themselves rounded.
template <class C, class V>
inline constexpr bool kCanSpeculate =
    C::kInexactValues && !C::kHasRow && !std::is_same_v<V, double>;

// AVX-512 instead checks each sum with one further addition (SumsIfExact).
template <class C, class V>
inline constexpr bool kSpeculatesInGroups = kCanSpeculate<C, V> && !SPARSEAGG_HAS_AVX512;

// Returns whether to add the next group speculatively.
HWY_INLINE bool ShouldSpeculate(SideTable& side) {
  if (side.groups_to_skip == 0) return RoundingFlag::Works();
  --side.groups_to_skip;
  return false;
}

// Returns whether an operation has been rounded since the flag was cleared. (fetestexcept() also
// reads the flags of the x87, which takes 30 ns.)
HWY_INLINE bool AnyRounded() {
#if HWY_ARCH_X86_64
  uint32_t status;
  asm volatile("stmxcsr %0" : "=m"(status) : : "memory");
  return (status & FE_INEXACT) != 0;
#else
  return RoundingFlag::IsSet();
#endif
}

// Calls add(). If a sum was rounded, calls undo() and then add_checked(), which pushes errors to
// `side`. The more often speculation fails in succession, the more groups skip it.
template <class Add, class Undo, class AddChecked>
HWY_INLINE void AddSpeculatively(SideTable& side, const Add& add, const Undo& undo,
                                 const AddChecked& add_checked) {
  add();
  if (HWY_LIKELY(!AnyRounded())) {
    side.groups_to_skip_next = 1;
    return;
  }
  undo();
  const size_t before = side.pushed();
  add_checked();
  RoundingFlag::Clear();
  if (side.pushed() == before) return;  // an earlier operation had set the flag
  side.groups_to_skip = side.groups_to_skip_next;
  side.groups_to_skip_next = std::min(2 * side.groups_to_skip_next, kSkippedGroupsMax);
}

}  // namespace HWY_NAMESPACE
}  // namespace sparseagg
HWY_AFTER_NAMESPACE();

#endif  // SPARSEAGG_CPU_KERNELS_SPECULATIVE_INL_H_
