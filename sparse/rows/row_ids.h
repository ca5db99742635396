// The rows of a canonical tensor. A tensor that holds every row, as the sum of many updates often
// does, needs no array of them: row i is i. That saves 8 bytes of memory per row, and the time to
// write them.
#ifndef SPARSEAGG_SPARSE_ROWS_ROW_IDS_H_
#define SPARSEAGG_SPARSE_ROWS_ROW_IDS_H_

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>

#include "base/host_vector.h"

namespace sparseagg {

// Rows in strictly ascending order, each below 2^63. Reads like a const std::vector<uint64_t>.
class RowIds {
 public:
  class const_iterator;
  using iterator = const_iterator;
  using value_type = uint64_t;

  RowIds() = default;
  RowIds(HostVector<uint64_t> rows)  // NOLINT(google-explicit-constructor)
      : rows_(std::move(rows)) {}
  RowIds(std::initializer_list<uint64_t> rows) : RowIds(HostVector<uint64_t>(rows)) {}
  // Rows 0 to size - 1.
  static RowIds Every(uint64_t size) {
    RowIds every;
    every.every_ = size;
    return every;
  }

  uint64_t size() const { return rows_.empty() ? every_ : rows_.size(); }
  bool empty() const { return size() == 0; }
  uint64_t operator[](uint64_t i) const { return rows_.empty() ? i : rows_[i]; }
  uint64_t front() const { return (*this)[0]; }
  uint64_t back() const { return (*this)[size() - 1]; }
  const_iterator begin() const;
  const_iterator end() const;

  // Returns the number of rows below `row`: the position at which it is, or would be inserted.
  uint64_t LowerBound(uint64_t row) const {
    if (rows_.empty()) return std::min(row, every_);
    return static_cast<uint64_t>(std::lower_bound(rows_.begin(), rows_.end(), row) - rows_.begin());
  }

  // The stored array; empty for the rows of Every(). Only rows that are not of Every() may be
  // written through it.
  const HostVector<uint64_t>& kept() const { return rows_; }
  HostVector<uint64_t>& kept() { return rows_; }
  // Returns rows [begin, begin + n): a view of the stored array, or, if there is none, generated in
  // `buffer`.
  std::span<const uint64_t> Piece(uint64_t begin, size_t n, uint64_t* buffer) const {
    if (!rows_.empty()) return std::span(rows_).subspan(begin, n);
    std::iota(buffer, buffer + n, begin);
    return {buffer, n};
  }
  // Returns all rows as an array: the stored one, or, if there is none, one generated in `buffer`.
  std::span<const uint64_t> Array(HostVector<uint64_t>& buffer) const {
    if (rows_.empty()) buffer.resize(every_);
    return Piece(0, size(), buffer.data());
  }

  uint64_t MemoryBytes() const { return rows_.size() * sizeof(uint64_t); }

  friend bool operator==(const RowIds& a, const RowIds& b);

 private:
  uint64_t every_ = 0;  // number of rows if rows_ is empty
  HostVector<uint64_t> rows_;
};

class RowIds::const_iterator {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = uint64_t;
  using difference_type = std::ptrdiff_t;
  using pointer = const uint64_t*;
  using reference = uint64_t;

  const_iterator() = default;
  const_iterator(const RowIds* rows, uint64_t at) : rows_(rows), at_(at) {}

  uint64_t operator*() const { return (*rows_)[at_]; }
  const_iterator& operator++() { return *this += 1; }
  const_iterator& operator--() { return *this += -1; }
  const_iterator operator++(int) { return {rows_, at_++}; }
  const_iterator& operator+=(difference_type n) {
    at_ += static_cast<uint64_t>(n);
    return *this;
  }
  friend const_iterator operator+(const_iterator a, difference_type n) { return a += n; }
  friend difference_type operator-(const_iterator a, const_iterator b) {
    return static_cast<difference_type>(a.at_ - b.at_);
  }
  friend bool operator==(const_iterator a, const_iterator b) { return a.at_ == b.at_; }
  friend auto operator<=>(const_iterator a, const_iterator b) { return a.at_ <=> b.at_; }

 private:
  const RowIds* rows_ = nullptr;
  uint64_t at_ = 0;
};

inline RowIds::const_iterator RowIds::begin() const { return {this, 0}; }
inline RowIds::const_iterator RowIds::end() const { return {this, size()}; }

inline bool operator==(const RowIds& a, const RowIds& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ROWS_ROW_IDS_H_
