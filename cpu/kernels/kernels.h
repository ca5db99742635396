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

// What is fetched ahead: `lines` cache lines of the cursor that comes `cursors` later; 0: nothing.
// And `cells`, of the window that comes next.
struct Ahead {
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
  // Several entries of one row in one update are not added one by one (min, max), or count once as
  // a holder: cpu/windowed/canonical.h prepares such updates.
  bool per_update;

  // Makes `rows` rows of the window empty; their values alone where row_cells is null.
  void (*clear)(const CellWindow& window, size_t rows, uint32_t width);

  // Adds to the window's cells what the cursors have below `limit`, and moves them there. A cursor
  // that is not sorted must have all its entries in the window, and limit = UINT64_MAX.
  void (*scatter)(std::span<Cursor> cursors, uint64_t limit, const Ahead& ahead,
                  const CellWindow& window, SideTable& side);  // row_width 1
  // The same of cursors with narrow rows; `ahead.cells` only is fetched.
  void (*scatter_narrow)(std::span<NarrowCursor> cursors, uint64_t limit, const Ahead& ahead,
                         const CellWindow& window, SideTable& side);  // row_width 1
  // `next`, or null: the cursor that is added afterwards.
  void (*scatter_rows)(Cursor& cursor, uint64_t limit, uint32_t width, Columns columns,
                       const Cursor* next, const CellWindow& window, SideTable& side);
  // The entries whose rows are those of a bitmap, all of them in the window and below `limit`,
  // where it ends (row_width 1). kValuesSlackBytes can be read after the values. Returns how many
  // entries were added: rows.count, unless that is not the number of bits.
  uint64_t (*scatter_bits)(const PackedRows::Bits& rows, const std::byte* values, float weight,
                           const CellWindow& window, uint64_t limit, SideTable& side);
  // The same as `scatter` and `scatter_rows` (all columns), on trial: nobody looks at rounding
  // errors. False when the RoundingFlag was set; cells and cursors are good for nothing then. Null
  // where that cannot be told: cells that are no sums, values of 64 bits.
  bool (*try_scatter)(std::span<Cursor> cursors, uint64_t limit, const Ahead& ahead,
                      const CellWindow& window);  // row_width 1
  bool (*try_scatter_rows)(Cursor& cursor, uint64_t limit, uint32_t width, const Cursor* next,
                           const CellWindow& window);
  // Makes n cells what they and `errors` from cell `first` on are together, as doubles that `lower`
  // rounds as it would the exact sums. Null where cells are no sums of doubles.
  void (*settle)(std::byte* values, const ErrorCells& errors, size_t first, size_t n);
  void (*scatter_run)(RunCursor& run, uint64_t limit, uint32_t width, const CellWindow& window,
                      SideTable& side);

  // Of the window's first `rows` rows.
  size_t (*count_held)(const CellWindow& window, size_t rows, uint32_t width);

  // Moves the rows that somebody holds, from `at` on, out of a window of `rows` rows, and leaves
  // them empty. Stops after at most rows_max of them, with `at` where to go on. Returns how many.
  size_t (*collect)(const CellWindow& window, size_t& at, size_t rows, uint32_t width,
                    size_t rows_max, const CellBlock& out);
  // The same without emptying them.
  size_t (*copy)(const CellWindow& window, size_t& at, size_t rows, uint32_t width, size_t rows_max,
                 const CellBlock& out);

  // Packs what the cursor has below `limit`, and moves it there. False when the window is full.
  bool (*pack)(Cursor& cursor, uint64_t limit, uint32_t width, PackedWindow& packed,
               SideTable& side);
  bool (*pack_run)(RunCursor& run, uint64_t limit, uint32_t width, PackedWindow& packed);

  // Sums the runs of equal rows of a packed window whose keys are sorted, from key `at` on, until
  // rows_max rows are complete or all keys are used. Returns the number of rows.
  size_t (*sum_sorted)(const PackedWindow& packed, size_t& at, uint32_t width, size_t rows_max,
                       const CellBlock& out, SideTable& side);

  // Lowers n rows, with their side entries, to results [n, result width]. Counts infinities;
  // OUT_OF_RANGE at the first integer that does not fit.
  absl::Status (*lower)(const ReduceSpec& spec, double total_weight, const CellBlock& block,
                        size_t n, SideRange side, void* out, uint64_t& infinite_values);
};

// The kernels of operator `op` on values of `type`, for the best instruction set of this machine.
// Null when there is no such operator.
const CpuKernels* KernelsFor(ValueType type, std::string_view op);

// The same as KernelsFor(), from the sources that have them.
const CpuKernels* KernelsOfSingles(ValueType type, std::string_view op);  // f32, f64
const CpuKernels* KernelsOfHalves(ValueType type, std::string_view op);   // f16, bf16
const CpuKernels* KernelsOfIntegers(ValueType type, std::string_view op);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_KERNELS_KERNELS_H_
