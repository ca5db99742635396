// Cuts the index space into windows whose cells, or whose entries, fit a core's cache, from a
// sample of the rows: dense regions get windows of cells, sparse ones windows of entries that are
// sorted.
#ifndef SPARSEAGG_CPU_WINDOWED_WINDOW_LAYOUT_H_
#define SPARSEAGG_CPU_WINDOWED_WINDOW_LAYOUT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "cpu/state/entries.h"
#include "sparse/types.h"

namespace sparseagg {

// Rows [begin, end).
struct RowWindow {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool dense = false;
};

struct WindowLayout {
  std::vector<RowWindow> windows;  // ascending, one after another, all of the index space
  std::vector<size_t> range_ends;  // windows [range_ends[r - 1], range_ends[r]) are one task
};

struct WindowTuning {
  size_t dense_cells = 1;           // of a dense window
  size_t sparse_entries = 1;        // of a sparse window
  double dense_rows_per_entry = 1;  // a window is dense if it expects an entry for this many rows
  uint32_t ranges = 1;
};

// Returns about `count` rows, sorted, at even distances over all entries of the sources. Sets
// `per_sample` to the number of entries that each of them stands for.
std::vector<uint64_t> SampleRows(std::span<const Cursor> cursors, const RunCursor& run,
                                 uint64_t count, double& per_sample);

// Plans windows and ranges. REQUIRES: samples are sorted and below num_rows.
WindowLayout LayOutWindows(std::span<const uint64_t> samples, double per_sample,
                           const TensorLayout& layout, const WindowTuning& tuning);

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_WINDOW_LAYOUT_H_
