// The inner loops of the CPU back end: the only code that is compiled once for every (operator,
// value type). The plans are written once and call them through this table.
#ifndef SPARSEAGG_CPU_KERNELS_H_
#define SPARSEAGG_CPU_KERNELS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "cpu/batch.h"
#include "sparse/partial.h"
#include "sparse/types.h"

namespace sparseagg {

// What every kernel that adds entries to slots needs.
struct FoldContext {
  const ReduceSpec& spec;
  int32_t lsb;  // of the window (sparse/window.h)
  std::span<const PendingUpdate> batch;
};

// Place of an entry: entry `at`, in ascending order of rows, of a piece. Pieces of one update are
// neighbours.
struct EntryKey {
  uint64_t row;
  uint32_t piece;
  uint32_t at;
};

// A rectangle of a dense accumulator that one task owns: rows [row_begin, row_end), columns of the
// values.
struct SlotRectangle {
  uint64_t row_begin;
  uint64_t row_end;
  uint32_t column_begin;
  uint32_t column_end;
};

// A dense accumulator.
struct DenseSlots {
  Int128* slots;          // [num_rows, SlotsPerRow]
  uint64_t* last_holder;  // [num_rows], number of the last update that held the row
};

struct CpuKernels {
  // Some thousand of the products that the batch will add, spread evenly over it; none where no
  // window is needed.
  std::vector<double> (*sample_products)(const ReduceSpec& spec,
                                         std::span<const PendingUpdate> batch);

  // Sums entries sorted by (row, piece) into rows, slots and side (unsorted within a row) of `out`.
  void (*sum_runs)(const FoldContext& context, std::span<const Piece> pieces,
                   std::span<const EntryKey> keys, Partial& out);

  // Adds the part of update `u` of the batch that lies in `task` to `dense`. `piece`, the sorted
  // order of the update, is null where the operator does not need it. `number` is the update's own,
  // never 0.
  void (*fold_update)(const FoldContext& context, uint32_t u, const Piece* piece, uint64_t number,
                      const SlotRectangle& task, const DenseSlots& dense,
                      std::vector<SideEntry>& side);

  // Writes the results of rows [begin, end) of a complete state to `values` ([rows, result width]).
  // Counts infinities; OUT_OF_RANGE at the first integer that does not fit.
  absl::Status (*lower_rows)(const Partial& state, double total_weight, size_t begin, size_t end,
                             void* values, uint64_t& infinite_values);

  bool per_update;  // min, max: a contributor's duplicates must lie side by side
};

// Null when there is no operator `op`.
template <class V>
const CpuKernels* KernelsFor(std::string_view op);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_KERNELS_H_
