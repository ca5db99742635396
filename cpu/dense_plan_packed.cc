// The dense plan's way with packed rows.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cpu/dense_plan.h"
#include "cpu/tuning.h"
#include "sparse/packed_rows.h"

namespace sparseagg {

// A slice in work.
struct DensePlan::PackedSlice {
  RowWindow rows;
  uint64_t unvisited;  // its rows from here on have no empty cells yet; rows.end: all have
  SideTable side;
};

// Those of the updates whose rows are packed, block by block; as many of each at a time as keep to
// the same cells, which stay cached.
void DensePlan::FoldPacked(std::span<const PendingUpdate> updates) {
  std::vector<const PendingUpdate*> packed;
  uint64_t entries = 0;
  for (const PendingUpdate& update : updates) {
    if (update.staged.entries.packed_rows == nullptr) continue;
    packed.push_back(&update);
    entries += update.staged.entries.nnz;
  }
  if (packed.empty()) return;
  const bool unvisited = std::exchange(unvisited_, false);
  std::vector<std::vector<SideEntry>> sides(slices_.size());
  const auto fold = [&](size_t s) {
    const RowWindow& rows = slices_[s];
    PackedSlice slice{rows, unvisited ? rows.begin : rows.end, {}};
    std::vector<uint64_t> next;  // block of each update
    for (const PendingUpdate* update : packed) {
      next.push_back(PackedRows(update->staged.entries.view()).LowerBound(rows.begin));
    }
    for (uint64_t row = rows.begin; row < rows.end; row += kVisitCells) {
      const uint64_t limit = std::min(rows.end, row + kVisitCells);
      const auto next_cells = ValueCells(limit, std::min(rows.end, limit + kVisitCells));
      Visit(slice, limit);
      for (size_t u = 0; u < packed.size(); ++u) {
        FetchPart(next_cells, u, packed.size());
        AddBlocks(*packed[u], limit, next[u], slice);
      }
    }
    sides[s] = slice.side.Take();
  };
  if (entries > kSmallEntries) {
    parallel_.For(slices_.size(), fold);
  } else {
    for (size_t s = 0; s < slices_.size(); ++s) fold(s);
  }
  TakeSide(std::move(sides));
}

// The update's blocks from `next` on that begin below `limit`.
void DensePlan::AddBlocks(const PendingUpdate& update, uint64_t limit, uint64_t& next,
                          PackedSlice& slice) {
  const PackedRows rows(update.staged.entries.view());
  while (next < rows.blocks()) {
    PackedRows::Block block = rows.block(next);
    if (block.first >= limit) return;
    uint64_t run = 1;
    if (block.form == 0 && block.first >= slice.rows.begin) {
      run = std::max<uint64_t>(1, rows.RunLength(next, slice.rows.end));
      block.count = rows.EntriesOf(next, run);
    }
    AddBlock(update, block, slice);
    next += run;
  }
}

// What a block, or several that are a run, has in the slice.
void DensePlan::AddBlock(const PendingUpdate& update, const PackedRows::Block& block,
                         PackedSlice& slice) {
  const auto* values = static_cast<const std::byte*>(update.staged.entries.values) +
                       block.begin * spec_.layout.row_bytes();
  const RowWindow& range = slice.rows;
  const CellWindow window = From(range.begin);
  PackedRows::BitsBuffer buffer;
  const auto bits = PackedRows::BitsOf(block, buffer);
  if (bits.has_value() && bits->first >= range.begin && bits->last < range.end) {
    Visit(slice, bits->last + 1);
    kernels_.scatter_bits(*bits, values, update.weight, window, range.end, slice.side);
    return;
  }
  std::array<uint64_t, kBlockEntries> rows;
  PackedRows::Unpack(block, rows.data());
  const uint64_t* end = rows.data() + block.count;
  const uint64_t* begin = std::lower_bound(std::as_const(rows).data(), end, range.begin);
  Cursor cursor{
      .row = begin,
      .end = end,
      .value = values + static_cast<size_t>(begin - rows.data()) * spec_.layout.row_bytes(),
      .weight = update.weight,
      .canonical = update.staged.order == EntryOrder::kCanonical};
  Visit(slice, std::min(range.end, end[-1] + 1));
  kernels_.scatter({&cursor, 1}, range.end, {}, window, slice.side);
}

// Rows of the slice below `end` are added to: their cells are empty at least.
void DensePlan::Visit(PackedSlice& slice, uint64_t end) {
  if (end <= slice.unvisited) return;
  Clear(slice.unvisited, end);
  slice.unvisited = end;
}

}  // namespace sparseagg
