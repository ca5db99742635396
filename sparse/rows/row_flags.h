// Copies indices of one dimension to rows, and checks their range and order, in one pass without
// branches.
#ifndef SPARSEAGG_SPARSE_ROWS_ROW_FLAGS_H_
#define SPARSEAGG_SPARSE_ROWS_ROW_FLAGS_H_

#include <cstdint>
#include <cstring>

#include "sparse/types.h"

namespace sparseagg {

// Conditions that hold for at least one of the rows so far. A condition is the highest bit of its
// word; the other bits are unspecified.
struct RowFlags {
  uint64_t out_of_range = 0;
  uint64_t descending = 0;     // the row is below the one before it
  uint64_t not_ascending = 0;  // the row is below or equal to the one before it

  // Compares a row with the one before it. The difference of two rows in range fits 63 bits and a
  // sign.
  void CompareWithLast(uint64_t row, uint64_t last) {
    descending |= row - last;
    not_ascending |= row - last - 1;
  }
  bool all_in_range() const { return out_of_range >> 63 == 0; }
  EntryOrder order() const {
    if (descending >> 63 != 0) return EntryOrder::kUnsorted;
    return not_ascending >> 63 != 0 ? EntryOrder::kSorted : EntryOrder::kCanonical;
  }
};

// Returns index number i of `indices`, which need not be aligned.
template <class Index>
int64_t IndexAt(const char* indices, uint64_t i) {
  Index index;
  std::memcpy(&index, indices + i * sizeof(Index), sizeof(Index));
  return index;
}

// Copies `count` > 0 indices at `from`, which need not be aligned, to `rows`, which may keep only
// their lowest bits. `highest` is the last row in range, and `last` the row before these.
template <class Index, class Row>
void CopyRows(const char* from, uint64_t count, uint64_t highest, uint64_t last,
              Row* __restrict rows, RowFlags& all_flags) {
  RowFlags flags = all_flags;  // a local copy has no aliases, so that the loop is vectorized
  const auto take = [&](uint64_t e, uint64_t before) {
    const auto row = static_cast<uint64_t>(IndexAt<Index>(from, e));
    rows[e] = static_cast<Row>(row);
    flags.out_of_range |= row | (highest - row);
    flags.CompareWithLast(row, before);
  };
  take(0, last);
  for (uint64_t e = 1; e < count; ++e) {
    take(e, static_cast<uint64_t>(IndexAt<Index>(from, e - 1)));
  }
  all_flags = flags;
}

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ROWS_ROW_FLAGS_H_
