#include "cpu/windowed/ranged_output.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "cpu/state/tuning.h"

namespace sparseagg {

RangedOutput::RangedOutput(const ReduceSpec& spec, const CpuKernels& kernels,
                           const Finalization& finalization, Parallel& parallel)
    : spec_(spec),
      kernels_(kernels),
      finalization_(finalization),
      parallel_(parallel),
      value_bytes_(finalization.results ? ResultLayout(spec).row_bytes()
                                        : size_t{spec.layout.row_width} * kernels.value_bytes),
      row_cell_bytes_(finalization.results ? 0 : kernels.row_bytes) {}

void RangedOutput::Reserve(std::vector<uint64_t> starts) {
  starts_ = std::move(starts);
  ranges_.resize(starts_.size() - 1);
  const size_t bound = starts_.back();
  streamed_ = finalization_.results && value_bytes_ <= kStreamedRowBytesMax &&
              bound * (sizeof(uint64_t) + value_bytes_) >= kStreamedResultsMin;
  if (writes_rows_) output_.rows.kept().resize(bound);
  output_.values.resize(bound * value_bytes_);
  output_.row_cells.resize(bound * row_cell_bytes_);
}

void RangedOutput::ReserveExactly(const std::vector<uint64_t>& counts) {
  std::vector<uint64_t> starts = {0};
  for (const uint64_t count : counts) starts.push_back(starts.back() + count);
  writes_rows_ = !finalization_.results || starts.back() < spec_.layout.num_rows;
  Reserve(std::move(starts));
}

RangeOutput RangedOutput::OutputOf(size_t r, size_t at) {
  return {.rows_max = starts_[r + 1] - at,
          .rows = writes_rows_ ? output_.rows.kept().data() + at : nullptr,
          .values = output_.values.data() + at * value_bytes_,
          .row_cells = output_.row_cells.data() + at * row_cell_bytes_,
          .streamed = streamed_};
}

void RangedOutput::Record(size_t r, size_t at, RangeReducer& reducer) {
  reducer.Finish();
  ranges_[r].at = at;
  ranges_[r].rows = reducer.rows();
  ranges_[r].infinite_values = reducer.infinite_values();
  ranges_[r].status = reducer.status();
  if (!finalization_.results) ranges_[r].side = reducer.DrainSide();
}

absl::StatusOr<SparseSums> RangedOutput::Close(const std::vector<SideEntry>& prior) {
  size_t rows = 0;
  for (const Range& range : ranges_) {
    if (!range.status.ok()) return range.status;
    rows += range.rows;
    output_.infinite_values += range.infinite_values;
  }
  parallel_.For(3, [&](size_t array) {
    if (array == 0) {
      if (!writes_rows_) return;
      CloseGaps(reinterpret_cast<std::byte*>(output_.rows.kept().data()), sizeof(uint64_t));
    } else if (array == 1) {
      CloseGaps(output_.values.data(), value_bytes_);
    } else {
      CloseGaps(output_.row_cells.data(), row_cell_bytes_);
    }
  });
  if (writes_rows_) {
    output_.rows.kept().resize(rows);
  } else {
    output_.rows = RowIds::Every(rows);
  }
  output_.values.resize(rows * value_bytes_);
  output_.row_cells.resize(rows * row_cell_bytes_);
  if (!finalization_.results) JoinSides(prior);
  return std::move(output_);
}

void RangedOutput::CloseGaps(std::byte* array, size_t bytes) const {
  size_t to = 0;
  for (size_t r = 0; r < ranges_.size();) {
    const size_t from = ranges_[r].at;
    size_t rows = 0;
    for (; r < ranges_.size() && ranges_[r].at == from + rows; ++r) rows += ranges_[r].rows;
    MoveDown(array + to * bytes, array + from * bytes, rows * bytes);
    to += rows;
  }
}

// Like memmove(), on all threads. A piece as long as the gap does not overlap its destination.
void RangedOutput::MoveDown(std::byte* to, const std::byte* from, size_t bytes) const {
  constexpr size_t kPieceMin = size_t{64} << 10;
  const auto gap = static_cast<size_t>(from - to);
  if (gap == 0 || bytes == 0) return;
  if (parallel_.threads() == 1 || gap < kPieceMin) {
    std::memmove(to, from, bytes);
    return;
  }
  for (size_t done = 0; done < bytes; done += gap) {
    const size_t block = std::min(gap, bytes - done);
    const size_t pieces = std::min<size_t>(parallel_.threads(), block / kPieceMin + 1);
    parallel_.For(pieces, [&](size_t p) {
      const size_t begin = done + block * p / pieces;
      std::memcpy(to + begin, from + begin, done + block * (p + 1) / pieces - begin);
    });
  }
}

void RangedOutput::JoinSides(const std::vector<SideEntry>& prior) {
  std::vector<SideEntry> added;
  for (Range& range : ranges_) {
    added.insert(added.end(), range.side.begin(), range.side.end());
    range.side = {};
  }
  if (added.empty()) {
    output_.side = prior;
    return;
  }
  output_.side.reserve(prior.size() + added.size());
  std::merge(prior.begin(), prior.end(), added.begin(), added.end(),
             std::back_inserter(output_.side), SlotLess);
  CompactSide(output_.side);
}

}  // namespace sparseagg
