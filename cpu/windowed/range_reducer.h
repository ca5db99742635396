// Reduces one range of rows, window by window, on one thread: entries go into a window's cells, or
// are sorted; the sums come out in ascending order of rows, as cells or as results.
#ifndef SPARSEAGG_CPU_WINDOWED_RANGE_REDUCER_H_
#define SPARSEAGG_CPU_WINDOWED_RANGE_REDUCER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "cpu/kernels/kernels.h"
#include "cpu/state/entries.h"
#include "cpu/state/error_cells.h"
#include "cpu/state/side_table.h"
#include "cpu/windowed/entry_span.h"
#include "cpu/windowed/non_temporal_writer.h"
#include "cpu/windowed/speculation_backoff.h"
#include "cpu/windowed/window_layout.h"
#include "sparse/types.h"

namespace sparseagg {

// The output of a reduction: cells, or results.
struct Finalization {
  bool results = false;       // results, each rounded once; otherwise cells
  double total_weight = 0.0;  // for results
};

// Where a range writes: arrays with room for all of its rows.
struct RangeOutput {
  uint64_t rows_max = 0;
  uint64_t* rows = nullptr;     // null if they are not listed
  std::byte* values = nullptr;  // results, or value cells
  std::byte* row_cells = nullptr;
  bool streamed = false;  // results are written with non-temporal stores
};

// References to rows of several values: refs[i] belongs to rows[i].
struct RefSpan {
  const uint64_t* rows;
  const RowRef* refs;
  size_t size;
};

// Returns the bytes of a value that the kernels read; 0 if they read none.
size_t ValueBytes(const CpuKernels& kernels, const TensorLayout& layout);

// Adds the span's entries to the window's cells.
void Scatter(const CpuKernels& kernels, const EntrySpan& span, const TensorLayout& layout,
             const CellWindow& window, SideTable& side);

// Adds the referenced entries to the window's cells.
void ScatterRefs(const CpuKernels& kernels, const RefSpan& span, const TensorLayout& layout,
                 const CellWindow& window, SideTable& side);

class RangeReducer {
 public:
  // `prior` are the sorted side entries of the run that is reduced together with the entries.
  RangeReducer(const ReduceSpec& spec, const CpuKernels& kernels, const Finalization& finalization,
               SideRange prior, const RangeOutput& output, SpeculationBackoff& backoff);

  // Reduces one window from cursors and the run, and advances them to the window's end. REQUIRES:
  // the cursors are sorted.
  void Sweep(const RowWindow& window, std::span<Cursor> cursors, RunCursor& run,
             const Prefetch& prefetch);

  // Reduces one window from spans and the run. REQUIRES: all entries of the spans lie in the
  // window.
  void Gather(const RowWindow& window, std::span<const EntrySpan> spans, RunCursor& run);

  // The same for rows of several values.
  void GatherRefs(const RowWindow& window, std::span<const RefSpan> spans, RunCursor& run);

  // Emits the held rows of the caller's cells, which begin with the window's first row, and keeps
  // the cells.
  void EmitCells(const CellWindow& cells, const RowWindow& window);

  // Completes the output. REQUIRED before the output is read.
  void Finish();

  size_t rows() const { return count_; }
  uint64_t infinite_values() const { return infinite_values_; }
  const absl::Status& status() const { return status_; }
  // Returns the sorted side entries of the cells, without those of `prior`.
  std::vector<SideEntry> DrainSide() { return side_.Drain(); }

 private:
  bool SweepSparse(const RowWindow& window, std::span<Cursor> cursors, RunCursor& run,
                   const Prefetch& prefetch);
  bool SweepSpeculatively(const RowWindow& window, std::span<Cursor> cursors,
                          const Prefetch& prefetch, const CellWindow& cells);
  CellWindow DenseWindow(const RowWindow& window);
  void EmitDense(const CellWindow& cells, const RowWindow& window);
  void ExtractErrors(const CellWindow& cells);
  void EmitHeld(const CellWindow& cells, const RowWindow& window, bool keep);
  void EmitPacked();
  CellBlock NextBlock();
  void Emit(const CellBlock& block, size_t n);
  void StartWindow(const RowWindow& window);

  const ReduceSpec& spec_;
  const CpuKernels& kernels_;
  const Finalization& finalization_;
  const SideRange prior_;
  const RangeOutput output_;
  SpeculationBackoff& backoff_;
  const uint32_t width_;
  const size_t block_rows_;
  const size_t result_bytes_;  // of a row
  size_t count_ = 0;
  uint64_t infinite_values_ = 0;
  absl::Status status_;
  SideTable side_;               // of the cells written or, for results, of the current window
  SideTable block_side_;         // of the current block, for results
  HostVector<std::byte> cells_;  // a dense window; clear between two windows
  HostVector<std::byte> row_cells_;
  size_t dense_rows_ = 0;  // that cells_ has room for
  ErrorCells errors_;      // of a dense window; none between two windows
  HostVector<std::byte> block_cells_;
  HostVector<std::byte> block_row_cells_;
  // A block of output that is streamed or does not list its rows, and the writers of streams.
  HostVector<uint64_t> block_row_ids_;
  HostVector<std::byte> block_results_;
  NonTemporalWriter row_writer_;
  NonTemporalWriter result_writer_;
  PackedWindow packed_;
  std::vector<Cursor> saved_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_RANGE_REDUCER_H_
