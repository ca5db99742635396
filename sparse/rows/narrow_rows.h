// The rows of an update that arrives in order, in two bytes each where others take eight: what a
// row has below 2^16, by segments of as many rows. Entries wait in memory until they are added, and
// to write and read them there takes longer than to add them.
#ifndef SPARSEAGG_SPARSE_ROWS_NARROW_ROWS_H_
#define SPARSEAGG_SPARSE_ROWS_NARROW_ROWS_H_

#include <cstdint>
#include <memory>

#include "sparse/rows/rows_seen.h"
#include "sparse/types.h"

namespace sparseagg {

// Rows are appended as indices of one dimension. One that is below the row before it is not taken:
// whoever has such an update goes on with rows of eight bytes (Widen). Thread-compatible.
class NarrowRows {
 public:
  static constexpr int kSegmentBits = 16;
  static constexpr uint64_t kSegmentRows = uint64_t{1} << kSegmentBits;
  static constexpr uint64_t kNnzMax = (uint64_t{1} << 32) - 1;

  // For `nnz` rows below num_rows. Null when there is no memory. REQUIRES: 0 < nnz <= kNnzMax.
  static std::unique_ptr<NarrowRows> Make(uint64_t num_rows, uint64_t nnz);

  // Takes `count` > 0 indices at `from`, which need not be aligned; `last` is the row before them
  // (the highest u64 before the first). False, and nothing is taken: one of them is out of range or
  // below the one before it.
  template <class Index>
  bool Append(const char* from, uint64_t count, uint64_t last, RowsSeen& seen);

  // Makes room for all rows as u64, and writes those that are there; no more are appended then, and
  // memory is that of those only. False, and nothing changes: there is none.
  bool Widen();
  // [nnz]; null unless widened.
  uint64_t* wide() const { return wide_.get(); }

  uint64_t size() const { return size_; }
  // Also of rows that have been widened. REQUIRES: the entry is there.
  uint64_t RowOf(uint64_t entry) const;
  uint64_t bytes() const;

  // Entries [begin, end) have rows from s * kSegmentRows on, and below the next segment's; `rows`
  // has what each is above that. REQUIRES: not widened, all rows are there.
  struct Segment {
    const uint16_t* rows;  // of entry `begin`
    uint64_t begin;
    uint64_t end;
  };
  Segment segment(uint64_t s) const;

 private:
  struct Free {
    void operator()(void* memory) const;
  };

  NarrowRows(uint64_t num_rows, uint64_t nnz) : num_rows_(num_rows), nnz_(nnz) {}
  uint64_t segments() const { return ((num_rows_ - 1) >> kSegmentBits) + 1; }
  template <class Index>
  void NoteSegments(const char* from, uint64_t count);

  const uint64_t num_rows_;
  const uint64_t nnz_;
  std::unique_ptr<uint16_t[], Free> rows_;    // [nnz]
  std::unique_ptr<uint32_t[], Free> begins_;  // [segments], first entry; before next_segment_
  std::unique_ptr<uint64_t[], Free> wide_;
  uint64_t size_ = 0;
  uint64_t next_segment_ = 0;  // of which no row has come
};

// Lets `indices` be the rows, where they have been widened.
void ReferToWideRows(MutableCooView& entries);

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ROWS_NARROW_ROWS_H_
