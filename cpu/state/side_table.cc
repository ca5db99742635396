#include "cpu/state/side_table.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "cpu/state/exact_cell.h"
#include "cpu/state/key_sort.h"

namespace sparseagg {
namespace {

// Returns how many errors are worth a double for every cell and a pass over all cells.
size_t ManyOf(const ErrorCells& cells) { return cells.size() / 16 + 64; }

}  // namespace

// Sorts by keys of (row, column, position), which together rarely need more than 64 bits: a
// window's rows are close to each other.
void SideTable::Sort() {
  constexpr size_t kWorthKeys = 64;
  if (std::is_sorted(entries_.begin(), entries_.end(), SlotLess)) return;
  uint64_t least = ~uint64_t{0};
  uint64_t most = 0;
  uint32_t columns = 0;
  for (const SideEntry& entry : entries_) {
    least = std::min(least, entry.row);
    most = std::max(most, entry.row);
    columns = std::max(columns, entry.column);
  }
  const size_t n = entries_.size();
  const int column_bits = std::bit_width(columns);
  const int position_bits = std::bit_width(n);
  if (n < kWorthKeys || std::bit_width(most - least) + column_bits + position_bits > 64) {
    SortSide(entries_);
    return;
  }
  HostVector<uint64_t> keys(n);
  for (size_t i = 0; i < n; ++i) {
    const SideEntry& entry = entries_[i];
    keys[i] = ((((entry.row - least) << column_bits) | entry.column) << position_bits) | i;
  }
  SortWithPositions(keys.data(), n, position_bits);
  std::vector<SideEntry> sorted;
  sorted.reserve(entries_.capacity());
  const uint64_t mask = (uint64_t{1} << position_bits) - 1;
  for (uint64_t key : keys) sorted.push_back(entries_[key & mask]);
  entries_ = std::move(sorted);
}

std::vector<SideEntry> SideTable::Drain() {
  Sort();
  CompactSide(entries_);
  limit_ = kLimitMin;
  return std::exchange(entries_, {});
}

void SideTable::Attach(ErrorCells& cells) {
  cells_ = &cells;
  in_cells_ = were_many_ || cells.levels() > 0;
  entries_before_ = entries_.size();
  pushed_before_ = pushed_;
  if (!in_cells_) limit_ = entries_before_ + std::min(kLimitMin, ManyOf(cells));
}

void SideTable::Detach() {
  were_many_ = pushed_ - pushed_before_ >= ManyOf(*cells_);
  cells_ = nullptr;
  in_cells_ = false;
  limit_ = std::max(kLimitMin, 2 * entries_.size());
}

void SideTable::ExtractErrors(ErrorCells& cells, uint64_t row, uint32_t column) {
  if (!cells.Covers(row, column)) return;
  const size_t at = cells.IndexOf(row, column);
  for (size_t k = 0; k < cells.levels(); ++k) {
    const double error = std::exchange(cells.Level(k)[at], 0.0);
    if (error != 0.0) PushEntry(row, column, error);
  }
}

void SideTable::Append(const ErrorCells& cells) {
  cells.ForEach(
      [this](uint64_t row, uint32_t column, double error) { AppendEntry(row, column, error); });
}

// Compacts the entries. It runs again only after as many further entries as are left now, so every
// entry is sorted a constant number of times on average. Entries that few slots have do not become
// error cells.
void SideTable::MakeRoom() {
  Sort();
  CompactSide(entries_);
  limit_ = std::max(kLimitMin, 2 * entries_.size());
  if (cells_ == nullptr || in_cells_) return;
  if (entries_.size() >= entries_before_ + ManyOf(*cells_) / 2) {
    MoveToCells();
  } else {
    limit_ = std::max(2 * entries_.size(), entries_before_ + ManyOf(*cells_));
  }
}

void SideTable::MoveToCells() {
  in_cells_ = true;
  size_t kept = 0;
  for (const SideEntry& entry : entries_) {
    const double value = ToDouble(entry);
    if (!IsForCells(entry.row, entry.column, value)) {
      entries_[kept++] = entry;
      continue;
    }
    const Scaled rest = Decompose(cells_->Add(cells_->IndexOf(entry.row, entry.column), value));
    if (rest.significand == 0) continue;
    entries_[kept++] = {entry.row, entry.column, rest.exponent, rest.significand};
  }
  entries_.resize(kept);
}

}  // namespace sparseagg
