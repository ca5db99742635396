#include "cpu/windowed/range_reducer.h"

#include <algorithm>
#include <limits>

#include "cpu/kernels/rounding_flag.h"
#include "cpu/state/key_sort.h"
#include "cpu/state/tuning.h"

namespace sparseagg {
namespace {

constexpr size_t kBlockCells = 1024;  // finalized at a time: they stay in the first-level cache
// Most entries that a sparse window packs. A window with more, which its plan did not expect, is
// divided in two.
constexpr size_t kPackedMax = size_t{1} << 17;
constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

struct RowBefore {
  bool operator()(const SideEntry& entry, uint64_t row) const { return entry.row < row; }
  bool operator()(uint64_t row, const SideEntry& entry) const { return row < entry.row; }
};

SideRange OfRows(SideRange side, uint64_t first, uint64_t last) {
  const auto begin = std::lower_bound(side.begin(), side.end(), first, RowBefore());
  return {begin, std::upper_bound(begin, side.end(), last, RowBefore())};
}

}  // namespace

size_t ValueBytes(const CpuKernels& kernels, const TensorLayout& layout) {
  return kernels.value_bytes == 0 ? 0 : SizeOf(layout.value_type);
}

void Scatter(const CpuKernels& kernels, const EntrySpan& span, const TensorLayout& layout,
             const CellWindow& window, SideTable& side) {
  span.ForEachCursor(window.begin, ValueBytes(kernels, layout), [&](Cursor& cursor) {
    kernels.scatter({&cursor, 1}, kNoLimit, {}, window, side);
  });
}

void ScatterRefs(const CpuKernels& kernels, const RefSpan& span, const TensorLayout& layout,
                 const CellWindow& window, SideTable& side) {
  const uint32_t width = layout.row_width;
  const size_t row_bytes = ValueBytes(kernels, layout) * width;
  for (size_t i = 0; i < span.size; ++i) {
    if (i + kRowsAhead < span.size) PrefetchRow(span.refs[i + kRowsAhead].values, row_bytes);
    Cursor one{.row = span.rows + i,
               .end = span.rows + i + 1,
               .value = span.refs[i].values,
               .weight = span.refs[i].weight};
    kernels.scatter_rows(one, kNoLimit, width, {0, width}, nullptr, window, side);
  }
}

RangeReducer::RangeReducer(const ReduceSpec& spec, const CpuKernels& kernels,
                           const Finalization& finalization, SideRange prior,
                           const RangeOutput& output, SpeculationBackoff& backoff)
    : spec_(spec),
      kernels_(kernels),
      finalization_(finalization),
      prior_(prior),
      output_(output),
      backoff_(backoff),
      width_(spec.layout.row_width),
      block_rows_(std::max<size_t>(1, kBlockCells / width_)),
      result_bytes_(finalization.results ? ResultLayout(spec).row_bytes() : 0),
      row_writer_(reinterpret_cast<std::byte*>(output.rows)),
      result_writer_(output.values) {
  if (!finalization_.results) return;
  block_cells_.resize(block_rows_ * width_ * kernels_.value_bytes);
  block_row_cells_.resize(block_rows_ * kernels_.row_bytes);
  if (output_.streamed || output_.rows == nullptr) block_row_ids_.resize(block_rows_);
  if (output_.streamed) block_results_.resize(block_rows_ * result_bytes_);
}

void RangeReducer::Sweep(const RowWindow& window, std::span<Cursor> cursors, RunCursor& run,
                         const Prefetch& prefetch) {
  if (!status_.ok()) return;
  if (!window.dense && SweepSparse(window, cursors, run, prefetch)) return;
  if (!window.dense && (window.end - window.begin) > std::max<size_t>(1, kDenseCellsMax / width_)) {
    // The window has more entries than a sparse window takes.
    const uint64_t middle = window.begin + (window.end - window.begin) / 2;
    Sweep({window.begin, middle, false}, cursors, run, prefetch);
    Sweep({middle, window.end, false}, cursors, run, prefetch);
    return;
  }
  StartWindow(window);
  const CellWindow cells = DenseWindow(window);
  if (!SweepSpeculatively(window, cursors, prefetch, cells)) {
    if (width_ == 1) {
      kernels_.scatter(cursors, window.end, prefetch, cells, side_);
    } else {
      for (size_t k = 0; k < cursors.size(); ++k) {
        const Cursor* next = &cursors[(k + 1) % cursors.size()];
        kernels_.scatter_rows(cursors[k], window.end, width_, {0, width_}, next, cells, side_);
      }
    }
  }
  kernels_.scatter_run(run, window.end, width_, cells, side_);
  EmitDense(cells, window);
}

// Returns false, with nothing consumed and the cells clear, if the window must be summed on the
// exact path.
bool RangeReducer::SweepSpeculatively(const RowWindow& window, std::span<Cursor> cursors,
                                      const Prefetch& prefetch, const CellWindow& cells) {
  if (kernels_.scatter_speculatively == nullptr || !RoundingFlag::Works() || !backoff_.ShouldTry())
    return false;
  saved_.assign(cursors.begin(), cursors.end());
  RoundingFlag::Clear();
  bool exact = true;
  if (width_ == 1) {
    exact = kernels_.scatter_speculatively(cursors, window.end, prefetch, cells);
  } else {
    for (size_t k = 0; exact && k < cursors.size(); ++k) {
      const Cursor* next = &cursors[(k + 1) % cursors.size()];
      exact = kernels_.scatter_rows_speculatively(cursors[k], window.end, width_, next, cells);
    }
  }
  backoff_.Record(exact);
  if (exact) return true;
  std::copy(saved_.begin(), saved_.end(), cursors.begin());
  kernels_.clear(cells, window.end - window.begin, width_);
  return false;
}

// Returns false, with nothing consumed, if the window has too many entries.
bool RangeReducer::SweepSparse(const RowWindow& window, std::span<Cursor> cursors, RunCursor& run,
                               const Prefetch& prefetch) {
  saved_.assign(cursors.begin(), cursors.end());
  const RunCursor saved_run = run;
  StartWindow(window);
  StartPacking(window.begin, window.end, kPackedMax, width_, kernels_.value_bytes,
               kernels_.row_bytes, packed_);
  bool fits = kernels_.pack_run(run, window.end, width_, packed_);
  const size_t value_bytes = ValueBytes(kernels_, spec_.layout);
  for (size_t k = 0; fits && k < cursors.size(); ++k) {
    if (width_ == 1 && k + prefetch.cursors < cursors.size()) {
      PrefetchEntries(cursors[k + prefetch.cursors], prefetch.lines, value_bytes);
    }
    fits = kernels_.pack(cursors[k], window.end, width_, packed_, block_side_);
  }
  if (!fits) {
    std::copy(saved_.begin(), saved_.end(), cursors.begin());
    run = saved_run;
    block_side_.Clear();
    return false;
  }
  side_.Append(block_side_.entries());
  block_side_.Clear();
  EmitPacked();
  return true;
}

void RangeReducer::Gather(const RowWindow& window, std::span<const EntrySpan> spans,
                          RunCursor& run) {
  if (!status_.ok()) return;
  StartWindow(window);
  if (window.dense) {
    const CellWindow cells = DenseWindow(window);
    kernels_.scatter_run(run, window.end, width_, cells, side_);
    for (const EntrySpan& span : spans) Scatter(kernels_, span, spec_.layout, cells, side_);
    EmitDense(cells, window);
    return;
  }
  const auto run_end = std::lower_bound(run.row, run.end, window.end);
  size_t entries = static_cast<size_t>(run_end - run.row);
  for (const EntrySpan& span : spans) entries += span.size;
  if (entries == 0) return;
  StartPacking(window.begin, window.end, entries, width_, kernels_.value_bytes, kernels_.row_bytes,
               packed_);
  kernels_.pack_run(run, window.end, width_, packed_);
  for (const EntrySpan& span : spans) {
    span.ForEachCursor(window.begin, ValueBytes(kernels_, spec_.layout), [&](Cursor& cursor) {
      kernels_.pack(cursor, kNoLimit, width_, packed_, side_);
    });
  }
  EmitPacked();
}

void RangeReducer::GatherRefs(const RowWindow& window, std::span<const RefSpan> spans,
                              RunCursor& run) {
  if (!status_.ok()) return;
  StartWindow(window);
  if (window.dense) {
    const CellWindow cells = DenseWindow(window);
    kernels_.scatter_run(run, window.end, width_, cells, side_);
    for (const RefSpan& span : spans) ScatterRefs(kernels_, span, spec_.layout, cells, side_);
    EmitDense(cells, window);
    return;
  }
  const auto run_end = std::lower_bound(run.row, run.end, window.end);
  size_t entries = static_cast<size_t>(run_end - run.row);
  for (const RefSpan& span : spans) entries += span.size;
  if (entries == 0) return;
  StartPacking(window.begin, window.end, entries, width_, kernels_.value_bytes, kernels_.row_bytes,
               packed_);
  kernels_.pack_run(run, window.end, width_, packed_);
  for (const RefSpan& span : spans) {
    for (size_t i = 0; i < span.size; ++i) {
      packed_.keys[packed_.size] = packed_.KeyOf(span.rows[i], packed_.size);
      if (packed_.drop > 0) packed_.rows[packed_.size] = span.rows[i];
      packed_.refs[packed_.size] = span.refs[i];
      ++packed_.size;
    }
  }
  EmitPacked();
}

// For results, the side table has the entries of one window only.
void RangeReducer::StartWindow(const RowWindow& window) {
  if (!finalization_.results) return;
  side_.Clear();
  const SideRange prior = OfRows(prior_, window.begin, window.end - 1);
  side_.Append(prior);
}

CellWindow RangeReducer::DenseWindow(const RowWindow& window) {
  const size_t rows = window.end - window.begin;
  CellWindow cells{window.begin, cells_.data(), row_cells_.data()};
  if (rows > dense_rows_) {
    cells_.resize(rows * width_ * kernels_.value_bytes);
    row_cells_.resize(rows * kernels_.row_bytes);
    cells.values = cells_.data();
    cells.row_cells = row_cells_.data();
    kernels_.clear(cells, rows, width_);
    dense_rows_ = rows;
  }
  errors_.Cover(window.begin, rows, 0, width_);
  side_.Attach(errors_);
  return cells;
}

void RangeReducer::EmitDense(const CellWindow& cells, const RowWindow& window) {
  side_.Detach();
  if (errors_.levels() > 0) ExtractErrors(cells);
  EmitHeld(cells, window, false);
}

// Moves the errors of the error cells into their cells, for results, or into side entries.
void RangeReducer::ExtractErrors(const CellWindow& cells) {
  if (finalization_.results) {
    // The sum of a slot with side entries is made from its side entries, so its errors join them.
    const std::vector<SideEntry> entries(side_.entries().begin(), side_.entries().end());
    for (const SideEntry& entry : entries) side_.ExtractErrors(errors_, entry.row, entry.column);
    kernels_.settle(cells.values, errors_, 0, errors_.size());
  } else {
    side_.Append(errors_);
  }
  errors_.Clear();
}

void RangeReducer::EmitCells(const CellWindow& cells, const RowWindow& window) {
  if (!status_.ok()) return;
  StartWindow(window);
  EmitHeld(cells, window, true);
}

void RangeReducer::EmitHeld(const CellWindow& cells, const RowWindow& window, bool keep) {
  const size_t rows = window.end - window.begin;
  const auto move = keep ? kernels_.copy : kernels_.drain;
  if (finalization_.results) side_.Sort();
  // Kernels store whole vectors: the limit keeps them from writing beyond the range, where another
  // thread writes.
  for (size_t at = 0; at < rows && count_ < output_.rows_max;) {
    const CellBlock block = NextBlock();
    const size_t rows_max = std::min<size_t>(block_rows_, output_.rows_max - count_);
    const size_t n = move(cells, at, rows, width_, rows_max, block);
    Emit(block, n);
  }
}

void RangeReducer::EmitPacked() {
  SortPacked(packed_);
  if (finalization_.results) side_.Sort();
  for (size_t at = 0; at < packed_.size;) {
    const CellBlock block = NextBlock();
    SideTable& side = finalization_.results ? block_side_ : side_;
    const size_t n = kernels_.sum_sorted(packed_, at, width_, block_rows_, block, side);
    Emit(block, n);
  }
}

// Returns where the next block goes. Listed rows, and cells that are the output, are written in
// place, unless the output is streamed.
CellBlock RangeReducer::NextBlock() {
  uint64_t* const rows = block_row_ids_.empty() ? output_.rows + count_ : block_row_ids_.data();
  CellBlock block{rows, block_cells_.data(), block_row_cells_.data()};
  if (!finalization_.results) {
    block.values = output_.values + count_ * width_ * kernels_.value_bytes;
    block.row_cells = output_.row_cells + count_ * kernels_.row_bytes;
  }
  return block;
}

void RangeReducer::Emit(const CellBlock& block, size_t n) {
  if (n == 0) return;
  if (finalization_.results && status_.ok()) {
    SideRange side = OfRows(side_.entries(), block.rows[0], block.rows[n - 1]);
    if (!block_side_.empty()) {
      block_side_.Append(side);
      block_side_.Sort();
      side = block_side_.entries();
    }
    std::byte* const results =
        output_.streamed ? block_results_.data() : output_.values + count_ * result_bytes_;
    status_ = kernels_.finalize(spec_, finalization_.total_weight, block, n, side, results,
                                infinite_values_);
    block_side_.Clear();
    if (output_.streamed) {
      result_writer_.Write({results, n * result_bytes_});
      if (output_.rows != nullptr) row_writer_.Write(std::as_bytes(std::span(block.rows, n)));
    }
  }
  count_ += n;
}

void RangeReducer::Finish() {
  if (!output_.streamed) return;
  row_writer_.Finish();
  result_writer_.Finish();
}

}  // namespace sparseagg
