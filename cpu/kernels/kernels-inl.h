// The table of kernels.
// Compiled once for every instruction set: see simd-inl.h.
#if defined(SPARSEAGG_CPU_KERNELS_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARSEAGG_CPU_KERNELS_KERNELS_INL_H_
#undef SPARSEAGG_CPU_KERNELS_KERNELS_INL_H_
#else
#define SPARSEAGG_CPU_KERNELS_KERNELS_INL_H_
#endif

#include <string_view>

#include "cpu/kernels/dense-inl.h"
#include "cpu/kernels/kernels.h"
#include "cpu/kernels/results-inl.h"
#include "cpu/kernels/settle-inl.h"
#include "cpu/kernels/sorted-inl.h"
#include "cpu/kernels/speculative-inl.h"
#include "sparse/ops/all.h"

HWY_BEFORE_NAMESPACE();
namespace sparseagg {
namespace HWY_NAMESPACE {  // NOLINT(google-readability-namespace-comments)
namespace hn = hwy::HWY_NAMESPACE;

template <class Op, class V>
constexpr CpuKernels MakeTable() {
  using D = DenseKernels<Op::kValues, Op::kRowSlot, V>;
  using S = SortedKernels<Op::kValues, Op::kRowSlot, V>;
  CpuKernels table = {
      .value_bytes = D::C::kValueBytes,
      .row_bytes = D::C::kRowBytes,
      .needs_unique_rows = kNeedsUniqueRows<Op> || Op::kRowSlot != RowSlot::kNone,
      .clear = &D::Clear,
      .scatter = &D::template Scatter<Cursor>,
      .scatter_narrow = &D::template Scatter<NarrowCursor>,
      .scatter_rows = &D::ScatterRows,
      .scatter_bits = &D::ScatterBits,
      .scatter_speculatively = nullptr,
      .scatter_rows_speculatively = nullptr,
      .settle = nullptr,
      .scatter_run = &D::ScatterRun,
      .count_held = &D::CountHeld,
      .drain = &D::Drain,
      .copy = &D::Copy,
      .pack = &S::Pack,
      .pack_run = &S::PackRun,
      .sum_sorted = &S::SumSorted,
      .finalize = &ResultKernels<Op, V>::Finalize,
  };
  if constexpr (kCanSpeculate<typename D::C, V>) {
    table.scatter_speculatively = &D::ScatterSpeculatively;
    table.scatter_rows_speculatively = &D::ScatterRowsSpeculatively;
  }
  if constexpr (D::C::kInexactValues) table.settle = &SettleKernels<Op, V>::Settle;
  return table;
}

template <class Op, class V>
const CpuKernels* KernelTable() {
  static constexpr CpuKernels kTable = MakeTable<Op, V>();
  return &kTable;
}

template <class V>
const CpuKernels* TableOf(std::string_view op) {
  const CpuKernels* found = nullptr;
  AllOps::With(op, [&](auto tag) { found = KernelTable<decltype(tag), V>(); });
  return found;
}

}  // namespace HWY_NAMESPACE
}  // namespace sparseagg
HWY_AFTER_NAMESPACE();

#endif  // SPARSEAGG_CPU_KERNELS_KERNELS_INL_H_
