#include "cpu/dense/dense_plan.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "cpu/state/entry_tally.h"
#include "cpu/state/tuning.h"
#include "cpu/windowed/cell_run.h"
#include "cpu/windowed/partition.h"

namespace sparseagg {
namespace {

constexpr uint32_t kGroupsPerThread = 4;
// With more visits of cursors than this, entries are distributed over slices one by one.
constexpr uint64_t kVisitsPerEntry = 4;
// Columns whose values of the next update are prefetched while those of this update are added.
constexpr uint32_t kPieceColumns = 1024;
constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

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
  for (uint32_t begin = 0; by_columns_ && begin < width_; begin += kSliceColumns) {
    errors_.emplace_back().Cover(0, num_rows, begin, std::min(kSliceColumns, width_ - begin));
  }
  for (size_t s = 0; !by_columns_ && s < slices_.size(); ++s) {
    errors_.emplace_back().Cover(slices_[s].begin, slices_[s].end - slices_[s].begin, 0, width_);
  }
  occupied_.resize(slices_.size(), 0);
  values_.resize(num_rows * width_ * kernels.value_bytes);
  row_cells_.resize(num_rows * kernels.row_bytes);
}

// Marks the slices as occupied, and clears those that no batch had rows in. A slice may be listed
// several times.
void DensePlan::PrepareSlices(std::vector<size_t> slices) {
  std::erase_if(slices, [this](size_t s) { return !MarkOccupied(s); });
  parallel_.For(slices.size(), [&](size_t i) {
    const RowWindow& rows = slices_[slices[i]];
    Clear(rows.begin, rows.end);
  });
}

void DensePlan::Clear(uint64_t begin, uint64_t end) {
  kernels_.clear(CellsFrom(begin), end - begin, width_);
}

CellWindow DensePlan::CellsFrom(uint64_t row) {
  return {row, values_.data() + row * width_ * kernels_.value_bytes,
          row_cells_.data() + row * kernels_.row_bytes};
}

std::span<const std::byte> DensePlan::ValueCells(uint64_t begin, uint64_t end) const {
  const uint64_t row_bytes = width_ * kernels_.value_bytes;
  return std::span(values_).subspan(begin * row_bytes, (end - begin) * row_bytes);
}

// Returns the rows of the group's slices; none if it has no slice.
RowWindow DensePlan::RowsOfGroup(size_t g) const {
  const size_t first = FirstOfGroup(g);
  if (first == group_ends_[g]) return {0, 0, true};
  return {slices_[first].begin, slices_[group_ends_[g] - 1].end, true};
}

void DensePlan::Fold(std::vector<PendingUpdate> batch, Feed) {
  const Need need = kernels_.needs_unique_rows ? Need::kUniqueRows : Need::kAny;
  const std::vector<Prepared> prepared = PrepareUpdates(spec_, need, parallel_, batch);
  std::vector<Cursor> sorted;
  std::vector<Cursor> unsorted;
  for (size_t u = 0; u < batch.size(); ++u) {
    if (batch[u].staged.entries.rows.wide() == nullptr) continue;  // packed, or narrow
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

// Prefetches values of the cursor's next row.
void DensePlan::PrefetchValues(const Cursor& cursor, Columns columns) const {
  const uint64_t bytes = SizeOf(spec_.layout.value_type);
  const uint64_t size = (columns.end - columns.begin) * bytes;
  PrefetchPart({cursor.value + columns.begin * bytes, size}, 0, 1);
}

void DensePlan::FoldColumns(std::span<const Cursor> cursors) {
  std::vector<uint64_t> uncleared;  // rows; these are few
  for (uint64_t row = 0; row < spec_.layout.num_rows; ++row) {
    if (occupied_[SliceOf(row)] == 0) uncleared.push_back(row);
  }
  std::fill(occupied_.begin(), occupied_.end(), uint8_t{1});
  for (const uint64_t row : uncleared) kernels_.clear(CellsFrom(row), 1, 0);  // row cells
  ForEachSlice([&](size_t t, SideTable& side) {
    const auto begin = static_cast<uint32_t>(t * kSliceColumns);
    const Columns columns{
        begin, static_cast<uint32_t>(std::min<uint64_t>(width_, uint64_t{begin} + kSliceColumns))};
    for (const uint64_t row : uncleared) {
      std::byte* const values = CellsFrom(row).values + size_t{begin} * kernels_.value_bytes;
      kernels_.clear({row, values, nullptr}, 1, columns.end - columns.begin);
    }
    for (size_t k = 0; k < cursors.size(); ++k) {
      for (uint32_t c = columns.begin; c < columns.end;) {
        const Columns piece{c, c + std::min(columns.end - c, kPieceColumns)};
        if (k + 1 < cursors.size()) PrefetchValues(cursors[k + 1], piece);
        Cursor cursor = cursors[k];
        kernels_.scatter_rows(cursor, kNoLimit, width_, piece, nullptr, AllCells(), side);
        ExpectAdded(cursors[k].size() - cursor.size(), cursors[k].size());
        c = piece.end;
      }
    }
  });
}

// Adds all entries on this thread, as if all rows were one slice.
void DensePlan::FoldFew(std::vector<Cursor>& cursors) {
  std::vector<size_t> slices;
  uint64_t entries = 0;
  for (const Cursor& cursor : cursors) {
    entries += cursor.size();
    for (const uint64_t* row = cursor.row; row < cursor.end; ++row) {
      if (slices.empty() || slices.back() != SliceOf(*row)) slices.push_back(SliceOf(*row));
    }
  }
  PrepareSlices(std::move(slices));
  SideTable side;
  if (width_ == 1) {
    kernels_.scatter(cursors, kNoLimit, {}, AllCells(), side);
  } else {
    for (Cursor& cursor : cursors) {
      kernels_.scatter_rows(cursor, kNoLimit, width_, {0, width_}, nullptr, AllCells(), side);
    }
  }
  uint64_t left = 0;
  for (const Cursor& cursor : cursors) left += cursor.size();
  ExpectAdded(entries - left, entries);
  std::vector<std::vector<SideEntry>> sides;
  sides.push_back(side.Drain());
  MergeSides(std::move(sides));
}

// Returns the rows of a slice that are visited at a time: their cells fit a cache, unless cursors
// have too few entries there to be worth the visits.
uint64_t DensePlan::RowsPerVisit(uint64_t entries, size_t cursors, uint64_t cells_least) const {
  const double worth = static_cast<double>(kEntriesPerVisit * cursors) *
                       static_cast<double>(spec_.layout.num_rows) / static_cast<double>(entries);
  const uint64_t slice = slices_[0].end - slices_[0].begin;
  const uint64_t least = std::clamp<uint64_t>(cells_least / width_, 1, slice);
  const auto rows = static_cast<uint64_t>(
      std::clamp(worth, static_cast<double>(least), static_cast<double>(slice)));
  const uint64_t visits = std::max<uint64_t>(slice / rows, 1);  // of equal size
  return std::max<uint64_t>((slice + visits - 1) / visits, 1);
}

// REQUIRES: the cursors are sorted, or there is only one slice.
void DensePlan::FoldSorted(std::span<const Cursor> cursors) {
  uint64_t entries = 0;
  for (const Cursor& cursor : cursors) entries += cursor.size();
  const uint64_t visit_rows =
      RowsPerVisit(entries, cursors.size(), width_ > 1 ? kWideCells : kVisitCells);
  const uint64_t visits = cursors.size() * (spec_.layout.num_rows / visit_rows);
  if (slices_.size() > 1 && visits > kVisitsPerEntry * entries) return FoldUnsorted(cursors);
  const size_t entry_bytes = ValueBytes(kernels_, spec_.layout) * width_;
  std::vector<std::vector<SideEntry>> sides(slices_.size());
  EntryTally tally(cursors.size());
  parallel_.For(group_ends_.size(), [&](size_t g) {
    std::vector<Cursor> own(cursors.begin(), cursors.end());
    const uint64_t begin = RowsOfGroup(g).begin;
    for (Cursor& cursor : own) {
      if (begin == 0) break;
      const uint64_t* at = std::lower_bound(cursor.row, cursor.end, begin);
      cursor.value += static_cast<size_t>(at - cursor.row) * entry_bytes;
      cursor.row = at;
    }
    const std::vector<Cursor> begins = own;
    const auto visit = [&](uint64_t row, uint64_t limit, bool first, SideTable& side) {
      const auto next = ValueCells(limit, std::min(RowsOfGroup(g).end, limit + visit_rows));
      if (first) Clear(row, limit);
      if (width_ == 1) {
        kernels_.scatter(own, limit, {1, 4, next}, CellsFrom(row), side);
        return;
      }
      for (size_t k = 0; k < own.size(); ++k) {
        PrefetchPart(next, k, own.size());
        const Cursor* after = &own[(k + 1) % own.size()];
        kernels_.scatter_rows(own[k], limit, width_, {0, width_}, after, CellsFrom(row), side);
      }
    };
    for (size_t s = FirstOfGroup(g); s < group_ends_[g]; ++s) {
      const uint64_t end = slices_[s].end;
      const auto has_rows = [end](const Cursor& c) { return c.row < c.end && *c.row < end; };
      if (std::none_of(own.begin(), own.end(), has_rows)) continue;
      const bool first = MarkOccupied(s);
      sides[s] = RunInSlice(s, [&](SideTable& side) {
        for (uint64_t row = slices_[s].begin; row < end; row += visit_rows) {
          visit(row, std::min(end, row + visit_rows), first, side);
        }
      });
    }
    for (size_t k = 0; k < own.size(); ++k) tally.Add(k, begins[k].size() - own[k].size());
  });
  for (size_t k = 0; k < cursors.size(); ++k) tally.Expect(k, cursors[k].size());
  MergeSides(std::move(sides));
}

void DensePlan::FoldUnsorted(std::span<const Cursor> cursors) {
  Partition partition(spec_.layout, ValueBytes(kernels_, spec_.layout), slices_, parallel_);
  partition.Distribute(cursors, [](size_t) { return std::span<std::byte>(); });
  EntryTally tally(1);
  ForEachSlice([&](size_t s, SideTable& side) {
    if (partition.EntriesOf(s) == 0) return;
    if (MarkOccupied(s)) Clear(slices_[s].begin, slices_[s].end);
    const CellWindow window = CellsFrom(slices_[s].begin);
    if (width_ == 1) {
      std::vector<EntrySpan> spans;
      partition.Read(s, spans);
      for (const auto& span : spans) {
        Scatter(kernels_, span, spec_.layout, window, side);
        tally.Add(0, span.size);
      }
    } else {
      std::vector<RefSpan> spans;
      partition.Read(s, spans);
      for (const auto& span : spans) {
        ScatterRefs(kernels_, span, spec_.layout, window, side);
        tally.Add(0, span.size);
      }
    }
  });
  uint64_t entries = 0;
  for (const Cursor& cursor : cursors) entries += cursor.size();
  tally.Expect(0, entries);
}

// Runs `work`, and returns the side entries that it pushes, without those that the slice's error
// cells take.
std::vector<SideEntry> DensePlan::RunInSlice(size_t slice, const Work& work) {
  SideTable side;
  side.Attach(errors_[slice]);
  work(side);
  side.Detach();
  return side.Drain();
}

// Runs `work` for each slice; on all threads if `parallel`.
void DensePlan::ForEachSlice(const std::function<void(size_t slice, SideTable& side)>& work,
                             bool parallel) {
  std::vector<std::vector<SideEntry>> sides(errors_.size());
  const auto in_slice = [&](size_t s) {
    sides[s] = RunInSlice(s, [&](SideTable& side) { work(s, side); });
  };
  if (parallel) {
    parallel_.For(sides.size(), in_slice);
  } else {
    for (size_t s = 0; s < sides.size(); ++s) in_slice(s);
  }
  MergeSides(std::move(sides));
}

// Merges the side entries of slices into side_. Those of ascending slices of rows are in order one
// after another; those of slices of columns are not.
void DensePlan::MergeSides(std::vector<std::vector<SideEntry>> sides) {
  size_t size = 0;
  for (const auto& side : sides) size += side.size();
  if (size == 0) return;
  std::vector<SideEntry> added;
  added.reserve(size);
  for (auto& side : sides) {
    added.insert(added.end(), side.begin(), side.end());
    side = std::vector<SideEntry>();  // frees it: there may be many
  }
  if (!std::is_sorted(added.begin(), added.end(), SlotLess)) SortSide(added);
  if (side_.empty()) {
    side_ = std::move(added);
  } else {
    const auto middle = static_cast<std::ptrdiff_t>(side_.size());
    side_.insert(side_.end(), added.begin(), added.end());
    std::inplace_merge(side_.begin(), side_.begin() + middle, side_.end(), SlotLess);
  }
  CompactSide(side_);
}

void DensePlan::Merge(CellRun run) {
  if (run.rows.empty()) return;
  std::vector<size_t> slices;
  for (auto row = run.rows.begin(); row != run.rows.end();) {
    slices.push_back(SliceOf(*row));
    row = std::lower_bound(row, run.rows.end(), slices_[slices.back()].end);
  }
  PrepareSlices(std::move(slices));
  SideTable side;
  RunCursor cursor{run.rows.data(), run.rows.data() + run.rows.size(), run.values.data(),
                   run.row_cells.data()};
  kernels_.scatter_run(cursor, kNoLimit, width_, AllCells(), side);
  std::vector<std::vector<SideEntry>> sides;
  sides.push_back(side.Drain());
  sides.push_back(std::move(run.side));
  MergeSides(std::move(sides));
}

uint64_t DensePlan::MemoryBytes() const {
  uint64_t bytes = values_.size() + row_cells_.size() + side_.capacity() * sizeof(SideEntry);
  for (const ErrorCells& errors : errors_) bytes += errors.MemoryBytes();
  return bytes;
}

}  // namespace sparseagg
