// The side table of a window or of a range of rows while it is being summed: what cells could not
// hold. Bounded by a constant number of entries for each slot that has any, however many are added.
#ifndef SPARSEAGG_CPU_SIDE_TABLE_H_
#define SPARSEAGG_CPU_SIDE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sparse/float_format.h"
#include "sparse/partial.h"

namespace sparseagg {

class SideTable {
 public:
  // `value`, finite, is a part of slot (row, column).
  void Push(uint64_t row, uint32_t column, double value) {
    if (value == 0.0) return;
    if (entries_.size() >= limit_) Compact();
    const Scaled parts = TakeApart(value);
    entries_.push_back({row, column, parts.exponent, parts.significand});
  }

  bool empty() const { return entries_.empty(); }
  void Clear() { entries_.clear(); }
  size_t size() const { return entries_.size(); }

  // Adds entries that are already in this form.
  void Append(std::span<const SideEntry> entries) {
    entries_.insert(entries_.end(), entries.begin(), entries.end());
  }

  // By (row, column).
  void Sort();
  std::span<const SideEntry> entries() const { return entries_; }
  // Sorted and short; leaves the table empty.
  std::vector<SideEntry> Take();

  // Of the kernels (cpu/trial-inl.h): how many groups are next added without a trial, and how many
  // the next failure makes them.
  uint32_t without_trial = 0;
  uint32_t after_failure = 1;

 private:
  static constexpr size_t kLimitMin = size_t{1} << 17;

  void Compact();

  std::vector<SideEntry> entries_;
  size_t limit_ = kLimitMin;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_SIDE_TABLE_H_
