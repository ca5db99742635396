// The inner loops of the CPU back end: the only code that is compiled once for every kind of cell
// and value type, and once for every instruction set (Highway chooses at run time). The plans are
// written once and call them through this table.
#ifndef SPARSEAGG_CPU_KERNELS_KERNELS_H_
#define SPARSEAGG_CPU_KERNELS_KERNELS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "cpu/state/entries.h"
#include "cpu/state/error_cells.h"
#include "cpu/state/side_table.h"
#include "sparse/rows/packed_rows.h"
#include "sparse/types.h"

namespace sparseagg {

// What a kernel prefetches: `lines` cache lines of the cursor `cursors` positions later (0: none),
// and `cells` of the next window.
struct Prefetch {
  uint32_t cursors = 0;
  uint32_t lines = 0;
  std::span<const std::byte> cells;
};

// Columns [begin, end) of a row's values.
struct Columns {
  uint32_t begin = 0;
  uint32_t end = 0;
};

// The side entries of some rows, sorted by (row, column).
using SideRange = std::span<const SideEntry>;

struct CpuKernels {
  uint32_t value_bytes;  // of a value cell; 0: none
  uint32_t row_bytes;    // of a row cell; 0: none
  // True if several entries of one row in one update must not be added one by one (min, max), or
  // count as one holder: cpu/windowed/canonical.h then prepares updates.
  bool needs_unique_rows;

  // Clears `rows` rows of the window; only their value cells where row_cells is null.
  void (*clear)(const CellWindow& window, size_t rows, uint32_t width);

  // Adds the cursors' entries below `limit` to the window's cells, and advances the cursors.
  // REQUIRES: each cursor is sorted, or has all its entries in the window and limit = UINT64_MAX.
  void (*scatter)(std::span<Cursor> cursors, uint64_t limit, const Prefetch& prefetch,
                  const CellWindow& window, SideTable& side);  // row_width 1
  // The same for cursors with narrow rows; prefetches only `prefetch.cells`.
  void (*scatter_narrow)(std::span<NarrowCursor> cursors, uint64_t limit, const Prefetch& prefetch,
                         const CellWindow& window, SideTable& side);  // row_width 1
  // The same for columns of one cursor of rows with several values. `next` is the cursor that is
  // added afterwards, which is prefetched; it may be null.
  void (*scatter_rows)(Cursor& cursor, uint64_t limit, uint32_t width, Columns columns,
                       const Cursor* next, const CellWindow& window, SideTable& side);
  // Adds the entries whose rows are those of a bitmap (row_width 1). REQUIRES: all of them lie in
  // the window and below `limit`, where it ends; kValuesSlackBytes can be read after the values.
  // Returns how many entries were added: rows.count, unless that differs from the number of bits.
  uint64_t (*scatter_bits)(const PackedRows::Bits& rows, const std::byte* values, float weight,
                           const CellWindow& window, uint64_t limit, SideTable& side);
  // The speculative forms of `scatter` and `scatter_rows` (all columns), which do not compute
  // rounding errors. They return false if the RoundingFlag was set; on false, cells and cursors are
  // unspecified. Null where the flag cannot tell whether sums are exact: for cells that are not
  // sums, and for values of 64 bits.
  bool (*scatter_speculatively)(std::span<Cursor> cursors, uint64_t limit, const Prefetch& prefetch,
                                const CellWindow& window);  // row_width 1
  bool (*scatter_rows_speculatively)(Cursor& cursor, uint64_t limit, uint32_t width,
                                     const Cursor* next, const CellWindow& window);
  // Adds `errors` from cell `first` on to n cells, which become doubles that `finalize` rounds as
  // it would round the exact sums. Null where cells are not sums of doubles.
  void (*settle)(std::byte* values, const ErrorCells& errors, size_t first, size_t n);
  // Adds the run's rows below `limit` to the window's cells, and advances the run.
  void (*scatter_run)(RunCursor& run, uint64_t limit, uint32_t width, const CellWindow& window,
                      SideTable& side);

  // Returns how many of the window's first `rows` rows are held.
  size_t (*count_held)(const CellWindow& window, size_t rows, uint32_t width);

  // Moves held rows, from `at` on, out of a window of `rows` rows, and clears them. Stops after at
  // most rows_max rows, and sets `at` to where to continue. Returns how many rows it moved.
  size_t (*drain)(const CellWindow& window, size_t& at, size_t rows, uint32_t width,
                  size_t rows_max, const CellBlock& out);
  // The same without clearing them.
  size_t (*copy)(const CellWindow& window, size_t& at, size_t rows, uint32_t width, size_t rows_max,
                 const CellBlock& out);

  // Packs the cursor's entries below `limit`, and advances the cursor. Returns false when the
  // window is full.
  bool (*pack)(Cursor& cursor, uint64_t limit, uint32_t width, PackedWindow& packed,
               SideTable& side);
  bool (*pack_run)(RunCursor& run, uint64_t limit, uint32_t width, PackedWindow& packed);

  // Sums the runs of equal rows of a packed window whose keys are sorted, from key `at` on, until
  // rows_max rows are complete or all keys are used. Returns the number of rows.
  size_t (*sum_sorted)(const PackedWindow& packed, size_t& at, uint32_t width, size_t rows_max,
                       const CellBlock& out, SideTable& side);

  // Rounds n rows, with their side entries, to results [n, result width]. Adds the number of
  // infinite results to `infinite_values`. Returns OUT_OF_RANGE at the first integer that does not
  // fit.
  absl::Status (*finalize)(const ReduceSpec& spec, double total_weight, const CellBlock& block,
                           size_t n, SideRange side, void* out, uint64_t& infinite_values);
};

// Returns the kernels of operator `op` on values of `type`, for the best instruction set of this
// machine; null when there is no such operator.
const CpuKernels* KernelsFor(ValueType type, std::string_view op);

// The parts of KernelsFor(), one for each source file that compiles kernels.
const CpuKernels* KernelsOfSingles(ValueType type, std::string_view op);  // f32, f64
const CpuKernels* KernelsOfHalves(ValueType type, std::string_view op);   // f16, bf16
const CpuKernels* KernelsOfIntegers(ValueType type, std::string_view op);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_KERNELS_KERNELS_H_
