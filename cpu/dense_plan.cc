#include "cpu/dense_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "cpu/cell_run.h"
#include "cpu/partition.h"
#include "cpu/tuning.h"
#include "sparse/packed_rows.h"

namespace sparseagg {
namespace {

constexpr uint64_t kSliceCells = uint64_t{1} << 17;
// Of them, what sorted updates visit at a time: it stays in a core's second cache beside entries
// that stream by (2^17 cells: 12 % more time of the server for scalars). Of wide rows, kWideCells.
constexpr uint64_t kVisitCells = uint64_t{1} << 13;
constexpr uint32_t kGroupsPerThread = 4;
constexpr uint32_t kSliceColumns = 4096;  // their cells stay cached
// What the next update has in as many columns is fetched while those of this one are added.
constexpr uint32_t kPieceColumns = 1024;
constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

bool SideBefore(const SideEntry& a, const SideEntry& b) {
  return a.row != b.row ? a.row < b.row : a.column < b.column;
}

}  // namespace

DensePlan::DensePlan(const ReduceSpec& spec, const CpuKernels& kernels, Parallel& parallel)
    : spec_(spec),
      kernels_(kernels),
      parallel_(parallel),
      width_(spec.layout.row_width),
      by_columns_(spec.layout.num_rows < 4 * uint64_t{parallel.threads()} &&
                  spec.layout.row_width > kSliceColumns && kernels.value_bytes > 0) {
  const uint64_t num_rows = spec.layout.num_rows;
  const uint64_t groups = std::min<uint64_t>(num_rows, kGroupsPerThread * parallel.threads());
  // A power of two: the slice of a row is then found by a shift (WindowIndex).
  const uint64_t slice_rows =
      std::bit_floor(std::max<uint64_t>(1, std::min(kSliceCells / width_, num_rows / groups)));
  for (uint64_t begin = 0; begin < num_rows; begin += slice_rows) {
    slices_.push_back({begin, std::min(num_rows, begin + slice_rows), true});
  }
  for (uint64_t g = 1; g <= groups; ++g) group_ends_.push_back(g * slices_.size() / groups);
  values_.resize(num_rows * width_ * kernels.value_bytes);
  row_cells_.resize(num_rows * kernels.row_bytes);
  parallel_.For(slices_.size(), [&](size_t s) {
    kernels_.clear(From(slices_[s].begin), slices_[s].end - slices_[s].begin, width_);
  });
}

CellWindow DensePlan::From(uint64_t row) {
  return {row, values_.data() + row * width_ * kernels_.value_bytes,
          row_cells_.data() + row * kernels_.row_bytes};
}

std::span<const std::byte> DensePlan::ValueCells(uint64_t begin, uint64_t end) const {
  const uint64_t row_bytes = width_ * kernels_.value_bytes;
  return std::span(values_).subspan(begin * row_bytes, (end - begin) * row_bytes);
}

// Those of its slices; none where it has no slice.
RowWindow DensePlan::RowsOfGroup(size_t g) const {
  const size_t first = g == 0 ? 0 : group_ends_[g - 1];
  if (first == group_ends_[g]) return {0, 0, true};
  return {slices_[first].begin, slices_[group_ends_[g] - 1].end, true};
}

void DensePlan::Fold(std::vector<PendingUpdate> batch, Feed) {
  const Need need = kernels_.per_update ? Need::kPerUpdate : Need::kAny;
  const std::vector<Prepared> prepared = PrepareUpdates(spec_, need, parallel_, batch);
  std::vector<Cursor> sorted;
  std::vector<Cursor> unsorted;
  for (size_t u = 0; u < batch.size(); ++u) {
    if (batch[u].staged.entries.indices == nullptr) continue;  // packed, or narrow
    sorted.insert(sorted.end(), prepared[u].cursors.begin(), prepared[u].cursors.end());
    if (!prepared[u].owned.empty() || batch[u].staged.entries.nnz == 0) continue;
    const bool in_order = IsReady(batch[u], Need::kSorted) || slices_.size() == 1;
    (in_order ? sorted : unsorted).push_back(CursorOf(batch[u]));
  }
  FoldPacked(batch);
  FoldNarrow(batch);
  uint64_t entries = 0;
  for (const Cursor& cursor : sorted) entries += cursor.size();
  for (const Cursor& cursor : unsorted) entries += cursor.size();
  if (by_columns_ || entries <= kSmallEntries) {
    sorted.insert(sorted.end(), unsorted.begin(), unsorted.end());
    by_columns_ ? FoldColumns(sorted) : FoldFew(sorted);
    return;
  }
  if (!sorted.empty()) FoldSorted(sorted);
  if (!unsorted.empty()) FoldUnsorted(unsorted);
}

// Those of the cursor's next row.
void DensePlan::FetchValues(const Cursor& cursor, Columns columns) const {
  const uint64_t bytes = SizeOf(spec_.layout.value_type);
  const uint64_t size = (columns.end - columns.begin) * bytes;
  FetchPart({cursor.value + columns.begin * bytes, size}, 0, 1);
}

void DensePlan::FoldColumns(std::span<const Cursor> cursors) {
  const size_t tasks = (width_ + kSliceColumns - 1) / kSliceColumns;
  std::vector<std::vector<SideEntry>> sides(tasks);
  parallel_.For(tasks, [&](size_t t) {
    const auto begin = static_cast<uint32_t>(t * kSliceColumns);
    const Columns columns{
        begin, static_cast<uint32_t>(std::min<uint64_t>(width_, uint64_t{begin} + kSliceColumns))};
    SideTable side;
    for (size_t k = 0; k < cursors.size(); ++k) {
      for (uint32_t c = columns.begin; c < columns.end;) {
        const Columns piece{c, c + std::min(columns.end - c, kPieceColumns)};
        if (k + 1 < cursors.size()) FetchValues(cursors[k + 1], piece);
        Cursor cursor = cursors[k];
        kernels_.scatter_rows(cursor, kNoLimit, width_, piece, nullptr, All(), side);
        c = piece.end;
      }
    }
    sides[t] = side.Take();
  });
  TakeSide(std::move(sides));
}

// All rows as one slice, on this thread.
void DensePlan::FoldFew(std::vector<Cursor>& cursors) {
  SideTable side;
  if (width_ == 1) {
    kernels_.scatter(cursors, kNoLimit, {}, All(), side);
  } else {
    for (Cursor& cursor : cursors) {
      kernels_.scatter_rows(cursor, kNoLimit, width_, {0, width_}, nullptr, All(), side);
    }
  }
  std::vector<std::vector<SideEntry>> sides;
  sides.push_back(side.Take());
  TakeSide(std::move(sides));
}

// Cells that fit a cache, unless the cursors have too little there to be worth their visits.
uint64_t DensePlan::RowsPerVisit(uint64_t entries, size_t cursors, uint64_t cells_least) const {
  const double worth = static_cast<double>(kEntriesPerVisit * cursors) *
                       static_cast<double>(spec_.layout.num_rows) / static_cast<double>(entries);
  const uint64_t least = std::max<uint64_t>(1, cells_least / width_);
  const uint64_t most = std::max<uint64_t>(least, kSliceCells / width_);
  return static_cast<uint64_t>(
      std::clamp(worth, static_cast<double>(least), static_cast<double>(most)));
}

// Sorted cursors, or any where there is one slice only.
void DensePlan::FoldSorted(std::span<const Cursor> cursors) {
  std::vector<std::vector<SideEntry>> sides(group_ends_.size());
  const size_t entry_bytes = ValueBytes(kernels_, spec_.layout) * width_;
  uint64_t entries = 0;
  for (const Cursor& cursor : cursors) entries += cursor.size();
  const uint64_t visit_rows =
      RowsPerVisit(entries, cursors.size(), width_ > 1 ? kWideCells : kVisitCells);
  parallel_.For(group_ends_.size(), [&](size_t g) {
    const auto [begin, end, dense] = RowsOfGroup(g);
    std::vector<Cursor> own(cursors.begin(), cursors.end());
    for (Cursor& cursor : own) {
      if (begin == 0) break;
      const uint64_t* at = std::lower_bound(cursor.row, cursor.end, begin);
      cursor.value += static_cast<size_t>(at - cursor.row) * entry_bytes;
      cursor.row = at;
    }
    SideTable side;
    for (uint64_t row = begin; row < end; row += visit_rows) {
      const uint64_t limit = std::min(end, row + visit_rows);
      const auto next = ValueCells(limit, std::min(end, limit + visit_rows));
      if (width_ == 1) {
        kernels_.scatter(own, limit, {1, 4, next}, From(row), side);
        continue;
      }
      for (size_t k = 0; k < own.size(); ++k) {
        FetchPart(next, k, own.size());
        const Cursor* after = &own[(k + 1) % own.size()];
        kernels_.scatter_rows(own[k], limit, width_, {0, width_}, after, From(row), side);
      }
    }
    sides[g] = side.Take();
  });
  TakeSide(std::move(sides));
}

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
  std::vector<std::vector<SideEntry>> sides(slices_.size());
  const auto fold = [&](size_t s) {
    const RowWindow& slice = slices_[s];
    std::vector<uint64_t> next;  // block of each update
    for (const PendingUpdate* update : packed) {
      next.push_back(PackedRows(update->staged.entries.view()).LowerBound(slice.begin));
    }
    SideTable side;
    for (uint64_t row = slice.begin; row < slice.end; row += kVisitCells) {
      const uint64_t limit = std::min(slice.end, row + kVisitCells);
      const auto next_cells = ValueCells(limit, std::min(slice.end, limit + kVisitCells));
      for (size_t u = 0; u < packed.size(); ++u) {
        FetchPart(next_cells, u, packed.size());
        const PackedRows rows(packed[u]->staged.entries.view());
        for (; next[u] < rows.blocks(); ++next[u]) {
          const PackedRows::Block block = rows.block(next[u]);
          if (block.first >= limit) break;
          AddBlock(*packed[u], block, slice, side);
        }
      }
    }
    sides[s] = side.Take();
  };
  if (entries > kSmallEntries) {
    parallel_.For(slices_.size(), fold);
  } else {
    for (size_t s = 0; s < slices_.size(); ++s) fold(s);
  }
  TakeSide(std::move(sides));
}

// What a block has in `range`.
void DensePlan::AddBlock(const PendingUpdate& update, const PackedRows::Block& block,
                         const RowWindow& range, SideTable& side) {
  const auto* values = static_cast<const std::byte*>(update.staged.entries.values) +
                       block.begin * spec_.layout.row_bytes();
  const CellWindow window = From(range.begin);
  PackedRows::BitsBuffer buffer;
  const auto bits = PackedRows::BitsOf(block, buffer);
  if (bits.has_value() && bits->first >= range.begin && bits->last < range.end) {
    kernels_.scatter_bits(*bits, values, update.weight, window, range.end, side);
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
  kernels_.scatter({&cursor, 1}, range.end, {}, window, side);
}

void DensePlan::FoldUnsorted(std::span<const Cursor> cursors) {
  Partition partition(spec_.layout, ValueBytes(kernels_, spec_.layout), slices_, parallel_);
  partition.Distribute(cursors, [](size_t) { return std::span<std::byte>(); });
  std::vector<std::vector<SideEntry>> sides(slices_.size());
  parallel_.For(slices_.size(), [&](size_t s) {
    const CellWindow window = From(slices_[s].begin);
    SideTable side;
    if (width_ == 1) {
      std::vector<EntryChunk> chunks;
      partition.Read(s, chunks);
      for (const auto& chunk : chunks) Scatter(kernels_, chunk, spec_.layout, window, side);
    } else {
      std::vector<RefChunk> chunks;
      partition.Read(s, chunks);
      for (const auto& chunk : chunks) ScatterRefs(kernels_, chunk, spec_.layout, window, side);
    }
    sides[s] = side.Take();
  });
  TakeSide(std::move(sides));
}

// Sides of ascending slices of rows are in order one after another; those of columns are not.
void DensePlan::TakeSide(std::vector<std::vector<SideEntry>> sides) {
  size_t size = 0;
  for (const auto& side : sides) size += side.size();
  if (size == 0) return;
  std::vector<SideEntry> added;
  added.reserve(size);
  for (auto& side : sides) {
    added.insert(added.end(), side.begin(), side.end());
    side = std::vector<SideEntry>();  // there may be many: not twice
  }
  if (!std::is_sorted(added.begin(), added.end(), SideBefore)) SortSide(added);
  if (side_.empty()) {
    side_ = std::move(added);
  } else {
    const auto middle = static_cast<std::ptrdiff_t>(side_.size());
    side_.insert(side_.end(), added.begin(), added.end());
    std::inplace_merge(side_.begin(), side_.begin() + middle, side_.end(), SideBefore);
  }
  CompactSide(side_);
}

void DensePlan::Merge(CellRun run) {
  SideTable side;
  RunCursor cursor{run.rows.data(), run.rows.data() + run.rows.size(), run.values.data(),
                   run.row_cells.data()};
  kernels_.scatter_run(cursor, kNoLimit, width_, All(), side);
  std::vector<std::vector<SideEntry>> sides;
  sides.push_back(side.Take());
  sides.push_back(std::move(run.side));
  TakeSide(std::move(sides));
}

CellRun DensePlan::State() {
  SparseSums sums = *Emit({});  // cells, so there is no result that could fail
  return {std::move(sums.rows), std::move(sums.values), std::move(sums.row_cells),
          std::move(sums.side)};
}

absl::StatusOr<SparseSums> DensePlan::Finish(std::vector<PendingUpdate> batch, Feed feed,
                                             double total_weight) {
  if (!batch.empty()) Fold(std::move(batch), feed);
  const Lowering lowering{.results = true, .total_weight = total_weight};
  return by_columns_ ? EmitColumns(total_weight) : Emit(lowering);
}

absl::StatusOr<SparseSums> DensePlan::Emit(const Lowering& lowering) {
  RangedOutput output(spec_, kernels_, lowering, parallel_);
  // Counted first: reading the cells once more takes less than closing gaps between ranges.
  std::vector<uint64_t> counts(group_ends_.size(), 0);
  parallel_.For(counts.size(), [&](size_t g) {
    const RowWindow rows = RowsOfGroup(g);
    counts[g] = kernels_.count_held(From(rows.begin), rows.end - rows.begin, width_);
  });
  output.ReserveExactly(counts);
  output.ForEachRange(side_, [&](size_t g, RangeReducer& reducer) {
    for (size_t s = g == 0 ? 0 : group_ends_[g - 1]; s < group_ends_[g]; ++s) {
      reducer.EmitCells(From(slices_[s].begin), slices_[s]);
    }
  });
  return output.Close(side_);
}

// Few wide rows: the columns of each are lowered in parallel, in place.
absl::StatusOr<SparseSums> DensePlan::EmitColumns(double total_weight) {
  SparseSums sums;
  for (uint64_t row = 0; row < spec_.layout.num_rows; ++row) {
    if (kernels_.count_held(From(row), 1, width_) > 0) sums.rows.push_back(row);
  }
  const uint64_t row_bytes = spec_.layout.row_bytes();
  sums.values.resize(sums.rows.size() * row_bytes);
  const size_t tasks = (width_ + kSliceColumns - 1) / kSliceColumns;
  for (size_t i = 0; i < sums.rows.size(); ++i) {
    const CellWindow cells = From(sums.rows[i]);
    const CellBlock row{&sums.rows[i], cells.values, cells.row_cells};
    std::byte* out = sums.values.data() + i * row_bytes;
    std::vector<absl::Status> statuses(tasks);
    std::vector<uint64_t> infinite(tasks, 0);
    parallel_.For(tasks, [&](size_t t) {
      const auto begin = static_cast<uint32_t>(t * kSliceColumns);
      const uint32_t size = std::min(width_ - begin, kSliceColumns);
      statuses[t] = LowerColumns(row, {begin, begin + size}, total_weight, out, infinite[t]);
    });
    for (size_t t = 0; t < tasks; ++t) {
      // An error names a column of its task's: the whole row says which one it is.
      if (!statuses[t].ok()) {
        return kernels_.lower(spec_, total_weight, row, 1, SideOf(*row.rows), out, infinite[t]);
      }
      sums.infinite_values += infinite[t];
    }
  }
  return sums;
}

// Columns of one row, as a row of their own.
absl::Status DensePlan::LowerColumns(const CellBlock& row, Columns columns, double total_weight,
                                     std::byte* out, uint64_t& infinite_values) const {
  ReduceSpec spec = spec_;
  spec.layout.row_width = columns.end - columns.begin;
  // Found, not looked for: every value of the row may have entries, and every task comes here.
  const SideRange all = SideOf(*row.rows);
  const auto from = [&all](uint32_t column) {
    return std::lower_bound(all.begin(), all.end(), column,
                            [](const SideEntry& a, uint32_t b) { return a.column < b; });
  };
  std::vector<SideEntry> side(from(columns.begin), from(columns.end));
  for (SideEntry& entry : side) entry.column -= columns.begin;
  for (auto of_row = from(width_); of_row != all.end(); ++of_row) {
    side.push_back(*of_row);
    side.back().column = spec.layout.row_width;
  }
  const CellBlock block{row.rows, row.values + size_t{columns.begin} * kernels_.value_bytes,
                        row.row_cells};
  return kernels_.lower(spec, total_weight, block, 1, side,
                        out + size_t{columns.begin} * SizeOf(spec.layout.value_type),
                        infinite_values);
}

SideRange DensePlan::SideOf(uint64_t row) const {
  const auto [begin, end] =
      std::equal_range(side_.begin(), side_.end(), SideEntry{row, 0, 0, 0},
                       [](const SideEntry& a, const SideEntry& b) { return a.row < b.row; });
  return {begin, end};
}

uint64_t DensePlan::MemoryBytes() const {
  return values_.size() + row_cells_.size() + side_.capacity() * sizeof(SideEntry);
}

}  // namespace sparseagg
