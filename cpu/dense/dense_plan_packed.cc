// Adds updates with packed rows to the cells of the dense plan.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cpu/dense/dense_plan.h"
#include "cpu/state/entry_tally.h"
#include "cpu/state/tuning.h"
#include "sparse/rows/packed_rows.h"

namespace sparseagg {
namespace {

// Returns the update's values from `entry` on.
const std::byte* ValuesOf(const PendingUpdate& update, uint64_t entry) {
  const MutableCooView& entries = update.staged.entries;
  return static_cast<const std::byte*>(entries.values) + entry * entries.layout.row_bytes();
}

}  // namespace

// The slice that a task works on.
struct DensePlan::PackedSlice {
  RowWindow rows;
  uint64_t uncleared;  // its rows from here on are not cleared yet; rows.end: all are
  SideTable& side;
  uint64_t added = 0;  // entries
};

// Adds those of the updates whose rows are packed, block by block. It visits the same cells for all
// of them before it continues, so that these stay cached.
void DensePlan::FoldPacked(std::span<const PendingUpdate> updates) {
  std::vector<const PendingUpdate*> packed;
  uint64_t entries = 0;
  for (const PendingUpdate& update : updates) {
    if (update.staged.entries.rows.packed().empty()) continue;
    packed.push_back(&update);
    entries += update.staged.entries.nnz;
  }
  if (packed.empty()) return;
  EntryTally tally(packed.size());
  const auto fold = [&](size_t s, SideTable& side) {
    const RowWindow& rows = slices_[s];
    PackedSlice slice{rows, MarkOccupied(s) ? rows.begin : rows.end, side};
    std::vector<uint64_t> next;  // the next block of each update
    for (const PendingUpdate* update : packed) {
      next.push_back(PackedRows(update->staged.entries.view()).LowerBound(rows.begin));
    }
    for (uint64_t row = rows.begin; row < rows.end; row += kVisitCells) {
      const uint64_t limit = std::min(rows.end, row + kVisitCells);
      const auto next_cells = ValueCells(limit, std::min(rows.end, limit + kVisitCells));
      ClearUpTo(slice, limit);
      for (size_t u = 0; u < packed.size(); ++u) {
        PrefetchPart(next_cells, u, packed.size());
        AddBlocks(*packed[u], limit, next[u], slice);
        tally.Add(u, std::exchange(slice.added, 0));
      }
    }
  };
  ForEachSlice(fold, entries > kSmallEntries);
  for (size_t u = 0; u < packed.size(); ++u) tally.Expect(u, packed[u]->staged.entries.nnz);
}

// Adds the update's blocks from `next` on that begin below `limit`, and advances `next`.
void DensePlan::AddBlocks(const PendingUpdate& update, uint64_t limit, uint64_t& next,
                          PackedSlice& slice) {
  const PackedRows rows(update.staged.entries.view());
  for (; next < rows.blocks(); ++next) {
    const PackedRows::Block block = rows.block(next);
    if (block.first >= limit) return;
    AddBlock(update, block, slice);
  }
}

// Adds the update's entries from `entry` on, whose rows are `bits`. REQUIRES: the rows are within
// the slice.
void DensePlan::AddBits(const PendingUpdate& update, const PackedRows::Bits& bits, uint64_t entry,
                        PackedSlice& slice) {
  ClearUpTo(slice, bits.last + 1);
  // The kernel adds to whole tiles of cells, also beyond the last row; the limit restricts it to
  // cells that are cleared.
  const uint64_t added =
      kernels_.scatter_bits(bits, ValuesOf(update, entry), update.weight,
                            CellsFrom(slice.rows.begin), slice.uncleared, slice.side);
  ExpectAdded(added, bits.count);
  slice.added += added;
}

// Adds the entries that a block has in the slice.
void DensePlan::AddBlock(const PendingUpdate& update, const PackedRows::Block& block,
                         PackedSlice& slice) {
  const RowWindow& range = slice.rows;
  PackedRows::BitsBuffer buffer;
  const auto bits = PackedRows::BitsOf(block, buffer);
  if (bits.has_value() && bits->first >= range.begin && bits->last < range.end) {
    return AddBits(update, *bits, block.begin, slice);
  }
  std::array<uint64_t, kBlockEntries> rows;
  PackedRows::Unpack(block, rows.data());
  const uint64_t* end = rows.data() + block.count;
  const uint64_t* begin = std::lower_bound(std::as_const(rows).data(), end, range.begin);
  Cursor cursor{.row = begin,
                .end = end,
                .value = ValuesOf(update, block.begin + static_cast<uint64_t>(begin - rows.data())),
                .weight = update.weight,
                .canonical = update.staged.order == EntryOrder::kCanonical};
  ClearUpTo(slice, std::min(range.end, end[-1] + 1));
  kernels_.scatter({&cursor, 1}, range.end, {}, CellsFrom(range.begin), slice.side);
  slice.added += static_cast<uint64_t>(cursor.row - begin);
}

// Clears the cells of the slice below `end` that are not cleared yet. Call it before adding to
// them.
void DensePlan::ClearUpTo(PackedSlice& slice, uint64_t end) {
  if (end <= slice.uncleared) return;
  Clear(slice.uncleared, end);
  slice.uncleared = end;
}

}  // namespace sparseagg
