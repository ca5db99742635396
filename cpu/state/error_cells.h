// The rounding errors of a window's cells, where there are many of them: a cell's sum continues in
// further doubles, each of which holds what the one before it lost. Together they are a
// floating-point expansion (Priest, Algorithms for Arbitrary Precision Floating Point Arithmetic,
// 1991) that is not kept in order while it grows: an addition costs one two-sum for each double
// that rounds. A side entry takes 32 bytes for each addition that is rounded, and must be sorted;
// error cells take 8 bytes for each cell and level.
#ifndef SPARSEAGG_CPU_STATE_ERROR_CELLS_H_
#define SPARSEAGG_CPU_STATE_ERROR_CELLS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/host_vector.h"
#include "cpu/state/cells.h"

namespace sparseagg {

class ErrorCells {
 public:
  // Six doubles and their cell hold 371 bits; products of f32 and one weight span 278, of arbitrary
  // weights 555, hardly ever all of them in one cell.
  static constexpr size_t kLevelsMax = 6;

  // Sets which cells the errors belong to: columns [first_column, first_column + columns) of rows
  // [begin, begin + rows). REQUIRES: no errors are held.
  void Cover(uint64_t begin, uint64_t rows, uint32_t first_column, uint32_t columns);

  bool Covers(uint64_t row, uint32_t column) const {
    return row - begin_ < rows_ && column - first_column_ < columns_;
  }
  size_t size() const { return rows_ * columns_; }
  // Returns the index of a covered cell, row by row.
  size_t IndexOf(uint64_t row, uint32_t column) const {
    return (row - begin_) * columns_ + (column - first_column_);
  }

  // Adds `error` to cell `at`. Returns the part that does not fit: nearly always 0.
  double Add(size_t at, double error) {
    for (size_t k = 0; error != 0.0; ++k) {
      double* level = Level(k);
      if (level == nullptr) break;
      error = AddExact(level[at], error);
    }
    return error;
  }

  // Returns level k, [cells], and makes it if it is the next one; null if k is kLevelsMax.
  // REQUIRES: k <= levels().
  double* Level(size_t k) {
    if (k >= kLevelsMax) return nullptr;
    if (k == used_) AddLevel();
    return levels_[k].data();
  }

  // The number of levels in use.
  size_t levels() const { return used_; }
  const double* level(size_t k) const { return levels_[k].data(); }

  // Calls visit(row, column, error) with every error that is not 0, in order of row and column.
  template <class Visit>
  void ForEach(const Visit& visit) const {
    for (size_t at = 0; used_ > 0 && at < size(); ++at) {
      for (size_t k = 0; k < used_; ++k) {
        if (levels_[k][at] == 0.0) continue;
        visit(begin_ + at / columns_, first_column_ + static_cast<uint32_t>(at % columns_),
              levels_[k][at]);
      }
    }
  }

  void Clear();
  uint64_t MemoryBytes() const;

 private:
  void AddLevel();

  uint64_t begin_ = 0;
  uint64_t rows_ = 0;
  uint32_t first_column_ = 0;
  uint32_t columns_ = 0;
  size_t used_ = 0;
  std::array<HostVector<double>, kLevelsMax> levels_;  // those from used_ on hold zeros
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_STATE_ERROR_CELLS_H_
