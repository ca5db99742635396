#include "cpu/side_table.h"

#include <algorithm>
#include <utility>

namespace sparseagg {

std::vector<SideEntry> SideTable::Take() {
  SortSide(entries_);
  CompactSide(entries_);
  limit_ = kLimitMin;
  return std::exchange(entries_, {});
}

// The next time only after as many entries as are left now: so every entry is sorted a constant
// number of times on average.
void SideTable::Compact() {
  SortSide(entries_);
  CompactSide(entries_);
  limit_ = std::max(kLimitMin, 2 * entries_.size());
}

}  // namespace sparseagg
