// Additions on trial: many are made without a look at their errors, and then the processor is asked
// whether any of them was rounded. It hardly ever is; where it was, the cells become what they
// were, and the additions are made again one by one. To ask costs some 20 cycles, to write what
// cells were a store each; to compute whether a sum is exact takes three times as many operations
// as the sum. Where a whole window can be made anew, what cells were need not be written either
// (cpu/windowed/window_trials.h). Compiled once for every instruction set: see simd-inl.h.
#if defined(SPARSEAGG_CPU_KERNELS_TRIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARSEAGG_CPU_KERNELS_TRIAL_INL_H_
#undef SPARSEAGG_CPU_KERNELS_TRIAL_INL_H_
#else
#define SPARSEAGG_CPU_KERNELS_TRIAL_INL_H_
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

// Cells that one trial is about, at most: what they were stays in the first cache beside them.
inline constexpr size_t kTrialCells = 512;
// With fewer, asking costs more than it saves.
inline constexpr size_t kTrialCellsMin = 64;
// Groups that are added without a trial after many that have failed.
inline constexpr uint32_t kWithoutTrialMax = 64;

// Where sums are doubles and products exact: those of f64 are rounded themselves.
template <class C, class V>
inline constexpr bool kCanBeTried = C::kInexactValues && !C::kHasRow && !std::is_same_v<V, double>;

// AVX-512 asks each sum with one addition more (SumsIfExact).
template <class C, class V>
inline constexpr bool kHasTrials = kCanBeTried<C, V> && !SPARSEAGG_HAS_AVX512;

// Whether the next group is to be tried.
HWY_INLINE bool WantsTrial(SideTable& side) {
  if (side.without_trial == 0) return RoundingFlag::Works();
  --side.without_trial;
  return false;
}

// Whether an operation has been rounded since the flag was cleared. (fetestexcept() asks the x87 as
// well, which takes 30 ns.)
HWY_INLINE bool AnyRounded() {
#if HWY_ARCH_X86_64
  uint32_t status;
  asm volatile("stmxcsr %0" : "=m"(status) : : "memory");
  return (status & FE_INEXACT) != 0;
#else
  return RoundingFlag::IsSet();
#endif
}

// Adds with `add()`; unless that is exact, `undo()` and `add_checked()`, which pushes errors to
// `side`. Where trials fail again and again, fewer are made.
template <class Add, class Undo, class AddChecked>
HWY_INLINE void Try(SideTable& side, const Add& add, const Undo& undo,
                    const AddChecked& add_checked) {
  add();
  if (HWY_LIKELY(!AnyRounded())) {
    side.after_failure = 1;
    return;
  }
  undo();
  const size_t before = side.pushed();
  add_checked();
  RoundingFlag::Clear();
  if (side.pushed() == before) return;  // it was something else, before the trial
  side.without_trial = side.after_failure;
  side.after_failure = std::min(2 * side.after_failure, kWithoutTrialMax);
}

}  // namespace HWY_NAMESPACE
}  // namespace sparseagg
HWY_AFTER_NAMESPACE();

#endif  // SPARSEAGG_CPU_KERNELS_TRIAL_INL_H_
