// The side table of a window or of a range of rows while it is being summed: what cells could not
// hold. Its size is bounded by a constant number of entries for each slot that has any, however
// many are added. Where entries are many relative to the number of cells, they become ErrorCells.
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
  // Adds `value`, which must be finite, to slot (row, column).
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
  // The number of nonzero values pushed so far, to entries or to error cells.
  size_t pushed() const { return pushed_; }

  // ---- Error cells.

  // Attaches error cells. From here on, values pushed for slots that `cells` covers go there if
  // they are many, or were many in the window before. REQUIRES: `cells` lives until Detach(); the
  // caller then adds its errors to the sums.
  void Attach(ErrorCells& cells);
  void Detach();
  // Returns the error cells, for kernels that add many errors at once and call CountPushed(); null
  // where errors become entries.
  ErrorCells* cells() { return in_cells_ ? cells_ : nullptr; }
  void CountPushed() { ++pushed_; }

  // Moves the errors of slot (row, column) from `cells` to entries.
  void ExtractErrors(ErrorCells& cells, uint64_t row, uint32_t column);
  // Appends copies of all errors in `cells` as entries.
  void Append(const ErrorCells& cells);

  // ---- Entries.

  // Like Push(), but never into error cells.
  void PushEntry(uint64_t row, uint32_t column, double value) {
    if (entries_.size() >= limit_) MakeRoom();
    AppendEntry(row, column, value);
  }

  // Appends entries.
  void Append(std::span<const SideEntry> entries) {
    entries_.insert(entries_.end(), entries.begin(), entries.end());
  }

  // Sorts the entries by (row, column).
  void Sort();
  std::span<const SideEntry> entries() const { return entries_; }
  // Returns the entries, sorted and compacted, and leaves the table empty.
  std::vector<SideEntry> Drain();

  // State of the kernels (cpu/kernels/speculative-inl.h): how many of the next groups are added
  // without speculation, and to how many the next failure sets that.
  uint32_t groups_to_skip = 0;
  uint32_t groups_to_skip_next = 1;

 private:
  static constexpr size_t kLimitMin = size_t{1} << 17;

  bool IsForCells(uint64_t row, uint32_t column, double value) const {
    return cells_->Covers(row, column) && std::fabs(value) < kAddendLimit;
  }
  void AppendEntry(uint64_t row, uint32_t column, double value) {
    const Scaled parts = Decompose(value);
    entries_.push_back({row, column, parts.exponent, parts.significand});
  }
  void MakeRoom();
  void MoveToCells();

  std::vector<SideEntry> entries_;
  size_t limit_ = kLimitMin;
  size_t pushed_ = 0;

  ErrorCells* cells_ = nullptr;
  bool in_cells_ = false;
  size_t entries_before_ = 0;  // at Attach()
  size_t pushed_before_ = 0;
  bool were_many_ = false;  // between the last Attach() and Detach()
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_STATE_SIDE_TABLE_H_
