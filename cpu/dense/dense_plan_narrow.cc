// Adds updates with narrow rows to the cells of the dense plan.
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cpu/dense/dense_plan.h"
#include "cpu/state/entry_tally.h"
#include "sparse/rows/narrow_rows.h"

namespace sparseagg {
namespace {

// Cells that are visited at a time: half as many as elsewhere, since a cursor has more entries in a
// cache line and a visit pays with fewer cells. They nearly fit the first-level cache.
constexpr uint64_t kNarrowVisitCells = uint64_t{1} << 12;

// Returns the entries of an update with narrow rows in a segment, from the segment's row `above`
// on.
NarrowCursor CursorIn(const PendingUpdate& update, uint64_t segment, uint64_t above) {
  const CooView entries = update.staged.entries.view();
  const NarrowRows::Segment part = entries.rows.narrow()->segment(segment);
  const uint16_t* const end = part.rows + (part.end - part.begin);
  const uint16_t* const row = std::lower_bound(part.rows, end, above);
  const uint64_t entry = part.begin + static_cast<uint64_t>(row - part.rows);
  return {
      .row = row,
      .end = end,
      .value = static_cast<const std::byte*>(entries.values) + entry * entries.layout.row_bytes(),
      .weight = update.weight,
      .canonical = update.staged.order == EntryOrder::kCanonical};
}

}  // namespace

// Adds those of the updates whose rows are narrow, segment by segment.
void DensePlan::FoldNarrow(std::span<const PendingUpdate> updates) {
  std::vector<const PendingUpdate*> narrow;
  uint64_t entries = 0;
  for (const PendingUpdate& update : updates) {
    if (update.staged.entries.rows.narrow() == nullptr) continue;
    narrow.push_back(&update);
    entries += update.staged.entries.nnz;
  }
  if (narrow.empty()) return;
  const uint64_t visit_rows = RowsPerVisit(entries, narrow.size(), kNarrowVisitCells);
  EntryTally tally(narrow.size());
  ForEachSlice([&](size_t s, SideTable& side) {
    const RowWindow& rows = slices_[s];
    const bool first = MarkOccupied(s);
    std::vector<NarrowCursor> cursors(narrow.size());
    std::vector<uint64_t> sizes(narrow.size());
    for (uint64_t row = rows.begin; row < rows.end;) {
      const uint64_t segment = row >> NarrowRows::kSegmentBits;
      const CellWindow window = CellsFrom(segment << NarrowRows::kSegmentBits);
      const uint64_t segment_end = std::min(rows.end, window.begin + NarrowRows::kSegmentRows);
      for (size_t k = 0; k < cursors.size(); ++k) {
        cursors[k] = CursorIn(*narrow[k], segment, row - window.begin);
        sizes[k] = cursors[k].size();
      }
      while (row < segment_end) {
        const uint64_t begin = std::exchange(row, std::min(segment_end, row + visit_rows));
        if (first) Clear(begin, row);
        const auto next = ValueCells(row, std::min(rows.end, row + visit_rows));
        kernels_.scatter_narrow(cursors, row, {.cells = next}, window, side);
      }
      for (size_t k = 0; k < cursors.size(); ++k) tally.Add(k, sizes[k] - cursors[k].size());
    }
  });
  for (size_t k = 0; k < narrow.size(); ++k) tally.Expect(k, narrow[k]->staged.entries.nnz);
}

}  // namespace sparseagg
