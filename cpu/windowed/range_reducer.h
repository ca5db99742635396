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
#include "cpu/windowed/entry_chunk.h"
#include "cpu/windowed/line_writer.h"
#include "cpu/windowed/window_plan.h"
#include "cpu/windowed/window_trials.h"
#include "sparse/types.h"

namespace sparseagg {

// What a reduction is to produce.
struct Lowering {
  bool results = false;       // results, each rounded once; otherwise cells
  double total_weight = 0.0;  // for results
};

// Where a range writes: arrays with room for all of its rows.
struct RangeOutput {
  uint64_t rows_max = 0;
  uint64_t* rows = nullptr;     // not of EmitEveryRow()
  std::byte* values = nullptr;  // results, or value cells
  std::byte* row_cells = nullptr;
  bool streamed = false;  // results: past the caches
};

// References of rows of several values: refs[i] belongs to rows[i].
struct RefChunk {
  const uint64_t* rows;
  const RowRef* refs;
  size_t size;
};

// Of a value that the kernels read; 0: they read none.
size_t ValueBytes(const CpuKernels& kernels, const TensorLayout& layout);

// Adds the chunk's entries to the window's cells.
void Scatter(const CpuKernels& kernels, const EntryChunk& chunk, const TensorLayout& layout,
             const CellWindow& window, SideTable& side);

// Adds what the references stand for to the window's cells.
void ScatterRefs(const CpuKernels& kernels, const RefChunk& chunk, const TensorLayout& layout,
                 const CellWindow& window, SideTable& side);

class RangeReducer {
 public:
  // `prior` are side entries of the run that is swept along, sorted.
  RangeReducer(const ReduceSpec& spec, const CpuKernels& kernels, const Lowering& lowering,
               SideRange prior, const RangeOutput& output, WindowTrials& trials);

  // Sorted cursors, and the run, are consumed up to the window's end.
  void Sweep(const RowWindow& window, std::span<Cursor> cursors, RunCursor& run,
             const Ahead& ahead);

  // All entries of the chunks lie in the window.
  void Gather(const RowWindow& window, std::span<const EntryChunk> chunks, RunCursor& run);

  void GatherRefs(const RowWindow& window, std::span<const RefChunk> chunks, RunCursor& run);

  // Copies what is held in cells that are the caller's: the window's rows, from its first one on.
  void EmitCells(const CellWindow& cells, const RowWindow& window);
  // The same for results where every row of the window is held: false when one is not, and the
  // output is good for nothing then.
  bool EmitEveryRow(const CellWindow& cells, const RowWindow& window);

  // REQUIRED before the output is read.
  void Finish();

  size_t rows() const { return count_; }
  uint64_t infinite_values() const { return infinite_values_; }
  const absl::Status& status() const { return status_; }
  // Side entries of the cells, sorted. Those of `prior` are the caller's.
  std::vector<SideEntry> TakeSide() { return side_.Take(); }

 private:
  bool SweepSparse(const RowWindow& window, std::span<Cursor> cursors, RunCursor& run,
                   const Ahead& ahead);
  bool SweepOnTrial(const RowWindow& window, std::span<Cursor> cursors, const Ahead& ahead,
                    const CellWindow& cells);
  CellWindow DenseWindow(const RowWindow& window);
  void EmitDense(const CellWindow& cells, const RowWindow& window);
  void TakeErrors(const CellWindow& cells);
  void MoveOut(const CellWindow& cells, const RowWindow& window, bool keep);
  void EmitPacked();
  CellBlock NextBlock();
  void Emit(const CellBlock& block, size_t n);
  void StartWindow(const RowWindow& window);

  const ReduceSpec& spec_;
  const CpuKernels& kernels_;
  const Lowering& lowering_;
  const SideRange prior_;
  const RangeOutput output_;
  WindowTrials& trials_;
  const uint32_t width_;
  const size_t block_rows_;
  const size_t result_bytes_;  // of a row
  size_t count_ = 0;
  uint64_t infinite_values_ = 0;
  absl::Status status_;
  SideTable side_;               // of the cells written, or of the window in work when results are
  SideTable block_side_;         // of the block in work, when results are written
  HostVector<std::byte> cells_;  // a dense window, empty between two windows
  HostVector<std::byte> row_cells_;
  size_t dense_rows_ = 0;  // that cells_ has
  ErrorCells errors_;      // of a dense window; none between two
  HostVector<std::byte> block_cells_;
  HostVector<std::byte> block_row_cells_;
  // Of an output that is streamed: a block of it, and where it goes.
  HostVector<uint64_t> block_row_ids_;
  HostVector<std::byte> block_results_;
  LineWriter row_writer_;
  LineWriter result_writer_;
  PackedWindow packed_;
  std::vector<Cursor> saved_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_RANGE_REDUCER_H_
