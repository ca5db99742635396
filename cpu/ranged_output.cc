#include "cpu/ranged_output.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace sparseagg {

RangedOutput::RangedOutput(const ReduceSpec& spec, const CpuKernels& kernels,
                           const Lowering& lowering, Parallel& parallel)
    : spec_(spec),
      kernels_(kernels),
      lowering_(lowering),
      parallel_(parallel),
      value_bytes_(lowering.results ? ResultLayout(spec).row_bytes()
                                    : size_t{spec.layout.row_width} * kernels.value_bytes),
      row_cell_bytes_(lowering.results ? 0 : kernels.row_bytes) {}

void RangedOutput::Reserve(std::vector<uint64_t> starts) {
  starts_ = std::move(starts);
  ranges_.resize(starts_.size() - 1);
  const size_t bound = starts_.back();
  output_.rows.resize(bound);
  output_.values.resize(bound * value_bytes_);
  output_.row_cells.resize(bound * row_cell_bytes_);
}

void RangedOutput::ReserveExactly(const std::vector<uint64_t>& counts) {
  std::vector<uint64_t> starts = {0};
  for (const uint64_t count : counts) starts.push_back(starts.back() + count);
  Reserve(std::move(starts));
}

RangeOutput RangedOutput::OutputOf(size_t r) {
  const uint64_t start = starts_[r];
  return {starts_[r + 1] - start, output_.rows.data() + start,
          output_.values.data() + start * value_bytes_,
          output_.row_cells.data() + start * row_cell_bytes_};
}

void RangedOutput::Take(size_t r, RangeReducer& reducer) {
  ranges_[r].rows = reducer.rows();
  ranges_[r].infinite_values = reducer.infinite_values();
  ranges_[r].status = reducer.status();
  if (!lowering_.results) ranges_[r].side = reducer.TakeSide();
}

absl::StatusOr<SparseSums> RangedOutput::Close(const std::vector<SideEntry>& prior) {
  std::vector<size_t> at(ranges_.size() + 1, 0);
  for (size_t r = 0; r < ranges_.size(); ++r) {
    if (!ranges_[r].status.ok()) return ranges_[r].status;
    at[r + 1] = at[r] + ranges_[r].rows;
    output_.infinite_values += ranges_[r].infinite_values;
  }
  parallel_.For(3, [&](size_t array) {
    if (array == 0) {
      CloseGaps(at, reinterpret_cast<std::byte*>(output_.rows.data()), sizeof(uint64_t));
    } else if (array == 1) {
      CloseGaps(at, output_.values.data(), value_bytes_);
    } else {
      CloseGaps(at, output_.row_cells.data(), row_cell_bytes_);
    }
  });
  output_.rows.resize(at.back());
  output_.values.resize(at.back() * value_bytes_);
  output_.row_cells.resize(at.back() * row_cell_bytes_);
  if (!lowering_.results) JoinSides(prior);
  return std::move(output_);
}

void RangedOutput::CloseGaps(const std::vector<size_t>& at, std::byte* array, size_t bytes) const {
  for (size_t r = 0; r < ranges_.size(); ++r) {
    if (starts_[r] == at[r] || ranges_[r].rows * bytes == 0) continue;
    std::memmove(array + at[r] * bytes, array + starts_[r] * bytes, ranges_[r].rows * bytes);
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
             std::back_inserter(output_.side), [](const SideEntry& a, const SideEntry& b) {
               return a.row != b.row ? a.row < b.row : a.column < b.column;
             });
  CompactSide(output_.side);
}

}  // namespace sparseagg
