#include "cpu/windowed/window_layout.h"

#include <algorithm>

#include "cpu/state/key_sort.h"

namespace sparseagg {
namespace {

// Appends every `stride`-th row, counting on from the arrays before.
void SampleArray(const uint64_t* rows, uint64_t size, uint64_t stride, uint64_t& next,
                 std::vector<uint64_t>& samples) {
  for (; next < size; next += stride) samples.push_back(rows[next]);
  next -= size;
}

}  // namespace

std::vector<uint64_t> SampleRows(std::span<const Cursor> cursors, const RunCursor& run,
                                 uint64_t count, double& per_sample) {
  uint64_t entries = run.size();
  for (const Cursor& cursor : cursors) entries += cursor.size();
  const uint64_t stride = std::max<uint64_t>(1, entries / std::max<uint64_t>(1, count));
  per_sample = static_cast<double>(stride);
  std::vector<uint64_t> samples;
  samples.reserve(entries / stride + 1);
  uint64_t next = stride / 2;
  for (const Cursor& cursor : cursors) {
    SampleArray(cursor.row, cursor.size(), stride, next, samples);
  }
  SampleArray(run.row, run.size(), stride, next, samples);
  SortKeys(samples.data(), samples.size());
  return samples;
}

WindowLayout LayOutWindows(std::span<const uint64_t> samples, double per_sample,
                           const TensorLayout& layout, const WindowTuning& tuning) {
  const uint64_t num_rows = layout.num_rows;
  const uint64_t dense_rows = std::max<uint64_t>(1, tuning.dense_cells / layout.row_width);
  const auto sparse_samples = std::max<size_t>(
      1, static_cast<size_t>(static_cast<double>(tuning.sparse_entries) / per_sample));
  WindowLayout plan;
  std::vector<size_t> samples_before;  // of each window
  size_t at = 0;
  for (uint64_t begin = 0; begin < num_rows;) {
    samples_before.push_back(at);
    const uint64_t dense_end = num_rows - begin > dense_rows ? begin + dense_rows : num_rows;
    const auto dense_at = static_cast<size_t>(
        std::lower_bound(samples.begin() + at, samples.end(), dense_end) - samples.begin());
    const double entries = static_cast<double>(dense_at - at) * per_sample;
    RowWindow window{begin, dense_end, true};
    if (entries * tuning.dense_rows_per_entry < static_cast<double>(dense_end - begin)) {
      window.dense = false;
      window.end = at + sparse_samples < samples.size() ? samples[at + sparse_samples] : num_rows;
      // A row with very many entries ends the window before it, and has one of its own.
      window.end = std::max(window.end, begin + 1);
      at = static_cast<size_t>(std::lower_bound(samples.begin() + at, samples.end(), window.end) -
                               samples.begin());
    } else {
      at = dense_at;
    }
    plan.windows.push_back(window);
    begin = window.end;
  }
  samples_before.push_back(samples.size());
  // Ranges have about as many entries each; even an empty window has a cost.
  const size_t cost = samples.size() + plan.windows.size();
  for (size_t r = 1, w = 0; r <= tuning.ranges && w < plan.windows.size(); ++r) {
    const size_t goal = r * cost / tuning.ranges;
    size_t end = w;
    while (end < plan.windows.size() && (r == tuning.ranges || samples_before[end] + end < goal)) {
      ++end;
    }
    if (end > w) plan.range_ends.push_back(end);
    w = end;
  }
  return plan;
}

}  // namespace sparseagg
