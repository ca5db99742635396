// The rows of an update that arrives in ascending order, in two bytes each instead of eight: the
// low 16 bits of each row, grouped by segments of 2^16 rows. Entries wait in memory until they are
// added, and writing and reading them there takes longer than adding them.
#ifndef SPARSEAGG_SPARSE_ROWS_NARROW_ROWS_H_
#define SPARSEAGG_SPARSE_ROWS_NARROW_ROWS_H_

#include <cstdint>
#include <memory>

#include "sparse/rows/row_flags.h"
#include "sparse/types.h"

namespace sparseagg {

// Rows are appended as indices of one dimension. Append() fails on a descending row; the caller
// must then Widen() to rows of eight bytes. Thread-compatible.
class NarrowRows {
 public:
  static constexpr int kSegmentBits = 16;
  static constexpr uint64_t kSegmentRows = uint64_t{1} << kSegmentBits;
  static constexpr uint64_t kNnzMax = (uint64_t{1} << 32) - 1;

  // Makes room for `nnz` rows below num_rows. Returns null when there is no memory. REQUIRES: 0 <
  // nnz <= kNnzMax.
  static std::unique_ptr<NarrowRows> Make(uint64_t num_rows, uint64_t nnz);

  // Appends `count` > 0 indices at `from`, which need not be aligned; `last` is the row before them
  // (2^64 - 1 before the first). Returns false, and appends nothing, when one of them is out of
  // range or below the one before it.
  template <class Index>
  bool Append(const char* from, uint64_t count, uint64_t last, RowFlags& flags);

  // Allocates all rows as u64, copies those appended so far and frees the narrow ones. The caller
  // writes further rows to wide(). Returns false, and changes nothing, when there is no memory.
  bool Widen();
  // [nnz]; null unless widened.
  uint64_t* wide() const { return wide_.get(); }

  uint64_t size() const { return size_; }
  // The row of an entry, also after Widen(). REQUIRES: the row has been appended or written.
  uint64_t RowOf(uint64_t entry) const;
  uint64_t bytes() const;

  // The entries [begin, end) whose rows are in [s * kSegmentRows, (s + 1) * kSegmentRows). `rows`
  // has each row less s * kSegmentRows. REQUIRES: not widened, and all rows have been appended.
  struct Segment {
    const uint16_t* rows;  // [end - begin]
    uint64_t begin;
    uint64_t end;
  };
  Segment segment(uint64_t s) const;

 private:
  struct Deleter {
    void operator()(void* memory) const;
  };

  NarrowRows(uint64_t num_rows, uint64_t nnz) : num_rows_(num_rows), nnz_(nnz) {}
  uint64_t segments() const { return ((num_rows_ - 1) >> kSegmentBits) + 1; }
  template <class Index>
  void RecordSegmentBegins(const char* from, uint64_t count);

  const uint64_t num_rows_;
  const uint64_t nnz_;
  std::unique_ptr<uint16_t[], Deleter> rows_;    // [nnz]
  std::unique_ptr<uint32_t[], Deleter> begins_;  // [segments], first entry; set below next_segment_
  std::unique_ptr<uint64_t[], Deleter> wide_;
  uint64_t size_ = 0;
  uint64_t next_segment_ = 0;  // first segment without rows
};

// Makes entries.rows refer to the wide rows, if the narrow ones have been widened.
void UseWideRows(MutableCooView& entries);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ROWS_NARROW_ROWS_H_
