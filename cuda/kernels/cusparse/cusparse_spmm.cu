// In: a batch. Out: a run, rows [size] and slots [size, slots()].
//
// After the sort (sort_entries.cu), row r of the selection matrix [runs, nnz] has a one for each of
// its entries. A product of the window is below 2^88: it is cut into four limbs of 22 bits with its
// sign. A sum of 2^31 limbs is below 2^53, so cuSPARSE's sums in f64 are exact, in any order and by
// any of its algorithms. out = limb 0 + 2^22 limb 1 + 2^44 limb 2 + 2^66 limb 3.
// Bytes a value: 8 written and read for each limb, against once 4 in row_reduce.cu, so this plan is
// not meant to win; it is what the library can do.
#include <utility>

#include "cuda/kernels/cusparse/cusparse.h"
#include "cuda/kernels/cusparse/cusparse_spmm.h"
#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/slots.cuh"
#include "cuda/kernels/sort/sorted_tiles.h"

namespace sparseagg::gpu {
namespace {

constexpr int kLimbBits = 22;
constexpr int kLimbs = 4;
static_assert(kLimbs * kLimbBits >= kWindowValueBits);

// Column indices and coefficients of the selection matrix, and its row offsets, which are nnz from
// the last run's end on: rows of the matrix that no run is for are empty.
struct Select {
  SortedEntries sorted;
  const uint64_t* starts;
  Count runs;
  int64_t* offsets;
  int64_t* indices;
  double* coefficients;

  SPARSEAGG_DEVICE void operator()(uint64_t p) const {
    if (p <= runs.most) {
      offsets[p] = static_cast<int64_t>(p < runs.Get() ? starts[p] : sorted.size);
    }
    if (p == sorted.size) return;
    indices[p] = static_cast<int64_t>(sorted.Entry(p));
    coefficients[p] = 1;
  }
};

template <class V>
struct CutLimb {
  BatchView batch;
  SlotRule rule;
  int shift;
  double* limbs;  // [nnz, width]

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    const uint64_t e = i / batch.width;
    const UpdateRef& update = batch.updates[SourceOf(batch, e)];
    const V value =
        ValueAt<V>(update, e - update.first, batch.width, static_cast<uint32_t>(i % batch.width));
    const Int128 product = FixedProduct(value, update.weight, rule.lsb);
    const UInt128 magnitude =
        product < 0 ? -static_cast<UInt128>(product) : static_cast<UInt128>(product);
    const auto limb = static_cast<double>(static_cast<uint64_t>(magnitude >> shift) &
                                          ((uint64_t{1} << kLimbBits) - 1));
    limbs[i] = product < 0 ? -limb : limb;
  }
};

struct AddLimb {
  SlotRule rule;
  int shift;
  const double* sums;  // [runs, width]
  Int128* slots;

  SPARSEAGG_DEVICE void operator()(uint64_t i) const {
    Int128& slot = slots[i / rule.width * rule.slots() + i % rule.width];
    const auto sum = static_cast<Int128>(static_cast<int64_t>(sums[i]));
    slot = (shift == 0 ? 0 : slot) + sum * (Int128{1} << shift);
  }
};

}  // namespace

SlotRun ReduceBySpmm(Queue& queue, const BatchView& batch, const SlotRule& rule) {
  SortedRuns all = SortIntoRuns(queue, batch, rule);
  const SortedEntries& sorted = all.sorted.view;
  SlotRun& run = all.run;

  DeviceArray<int64_t> offsets(queue, run.size + 1);
  DeviceArray<int64_t> indices(queue, batch.nnz);
  DeviceArray<double> coefficients(queue, batch.nnz);
  ForEach(queue, batch.nnz + 1,
          Select{sorted, all.starts.data(), run.count(), offsets.data(), indices.data(),
                 coefficients.data()});
  DeviceArray<double> limbs(queue, batch.nnz * rule.width);
  DeviceArray<double> sums(queue, run.size * rule.width);
  const Spmm product{static_cast<int64_t>(run.size),
                     static_cast<int64_t>(batch.nnz),
                     static_cast<int64_t>(rule.width),
                     static_cast<int64_t>(batch.nnz),
                     offsets.data(),
                     indices.data(),
                     coefficients.data(),
                     limbs.data(),
                     sums.data()};
  for (int limb = 0; limb < kLimbs; ++limb) {
    WithValueType(rule.type, [&](auto tag) {
      using V = typename decltype(tag)::type;
      ForEach(queue, limbs.size(), CutLimb<V>{batch, rule, limb * kLimbBits, limbs.data()});
    });
    Multiply(queue, product);
    ForEach(queue, run.count(), rule.width,
            AddLimb{rule, limb * kLimbBits, sums.data(), run.slots.data()});
  }
  if (rule.row != RowSlot::kNone) {
    const RowPieces pieces = CutRows(queue, rule, all.starts.data(), run.count(), batch.nnz);
    // The columns of values are summed already.
    WalkPieces(queue, batch, rule, sorted, pieces, rule.value_slots(), run.slots.data());
    JoinPieces(queue, rule, pieces, run.slots.data(), rule.value_slots());
  }
  return std::move(run);
}

}  // namespace sparseagg::gpu
