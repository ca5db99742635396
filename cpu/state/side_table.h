// The side table of a window or of a range of rows while it is being summed: what cells could not
// hold. Bounded by a constant number of entries for each slot that has any, however many are added.
// Where they are many for the cells that there are, they become ErrorCells.
#ifndef SPARSEAGG_CPU_STATE_SIDE_TABLE_H_
#define SPARSEAGG_CPU_STATE_SIDE_TABLE_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu/state/cells.h"
#include "cpu/state/error_cells.h"
#include "sparse/float_format.h"
#include "sparse/partial.h"

namespace sparseagg {

class SideTable {
 public:
  // `value`, finite, is a part of slot (row, column).
  void Push(uint64_t row, uint32_t column, double value) {
    if (value == 0.0) return;
    ++pushed_;
    if (in_cells_ && IsForCells(row, column, value)) {
      value = cells_->Add(cells_->IndexOf(row, column), value);
    }
    if (value != 0.0) PushEntry(row, column, value);
  }

  bool empty() const { return entries_.empty(); }
  void Clear() { entries_.clear(); }
  size_t size() const { return entries_.size(); }
  // Grows with every value that is not 0, wherever it goes.
  size_t pushed() const { return pushed_; }

  // ---- Error cells.

  // From here on what is pushed of cells that `cells` covers goes there, if it is much, or if there
  // was much before. REQUIRES: `cells` stay until Detach(); they are then the caller's to add.
  void Attach(ErrorCells& cells);
  void Detach();
  // For kernels that add many to them at once, and say so; null where nothing goes there.
  ErrorCells* cells() { return in_cells_ ? cells_ : nullptr; }
  void CountPushed() { ++pushed_; }

  // What `cells` hold of slot (row, column) becomes entries, and is no longer there.
  void Take(ErrorCells& cells, uint64_t row, uint32_t column);
  // All that they hold, as entries as well.
  void Append(const ErrorCells& cells);

  // ---- Entries.

  // As Push(), never into error cells.
  void PushEntry(uint64_t row, uint32_t column, double value) {
    if (entries_.size() >= limit_) MakeRoom();
    AppendEntry(row, column, value);
  }

  // Adds entries that are already in this form.
  void Append(std::span<const SideEntry> entries) {
    entries_.insert(entries_.end(), entries.begin(), entries.end());
  }

  // By (row, column).
  void Sort();
  std::span<const SideEntry> entries() const { return entries_; }
  // Sorted and short; leaves the table empty.
  std::vector<SideEntry> Take();

  // Of the kernels (cpu/kernels/trial-inl.h): how many groups are next added without a trial, and
  // how many the next failure makes them.
  uint32_t without_trial = 0;
  uint32_t after_failure = 1;

 private:
  static constexpr size_t kLimitMin = size_t{1} << 17;

  bool IsForCells(uint64_t row, uint32_t column, double value) const {
    return cells_->Covers(row, column) && std::fabs(value) < kAddendLimit;
  }
  void AppendEntry(uint64_t row, uint32_t column, double value) {
    const Scaled parts = TakeApart(value);
    entries_.push_back({row, column, parts.exponent, parts.significand});
  }
  void MakeRoom();
  void MoveToCells();

  std::vector<SideEntry> entries_;
  size_t limit_ = kLimitMin;
  size_t pushed_ = 0;

  ErrorCells* cells_ = nullptr;
  bool in_cells_ = false;
  size_t entries_before_ = 0;  // Attach()
  size_t pushed_before_ = 0;
  bool were_many_ = false;  // between the last Attach() and Detach()
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_STATE_SIDE_TABLE_H_
