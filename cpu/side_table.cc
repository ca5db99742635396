#include "cpu/side_table.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "cpu/key_sort.h"

namespace sparseagg {

// By keys of (row, column, position), which together rarely need more than 64 bits: a window's rows
// are close to each other.
void SideTable::Sort() {
  constexpr size_t kWorthKeys = 64;
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

std::vector<SideEntry> SideTable::Take() {
  Sort();
  CompactSide(entries_);
  limit_ = kLimitMin;
  return std::exchange(entries_, {});
}

// The next time only after as many entries as are left now: so every entry is sorted a constant
// number of times on average.
void SideTable::Compact() {
  Sort();
  CompactSide(entries_);
  limit_ = std::max(kLimitMin, 2 * entries_.size());
}

}  // namespace sparseagg
