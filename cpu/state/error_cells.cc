#include "cpu/state/error_cells.h"

#include <algorithm>

namespace sparseagg {

void ErrorCells::Cover(uint64_t begin, uint64_t rows, uint32_t first_column, uint32_t columns) {
  begin_ = begin;
  rows_ = rows;
  first_column_ = first_column;
  columns_ = columns;
}

void ErrorCells::AddLevel() {
  HostVector<double>& level = levels_[used_];
  if (level.size() < size()) level.assign(size(), 0.0);
  ++used_;
}

void ErrorCells::Clear() {
  for (; used_ > 0; --used_) std::fill_n(levels_[used_ - 1].data(), size(), 0.0);
}

uint64_t ErrorCells::MemoryBytes() const {
  uint64_t bytes = 0;
  for (const HostVector<double>& level : levels_) bytes += level.size() * sizeof(double);
  return bytes;
}

}  // namespace sparseagg
