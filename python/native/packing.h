// The rows of one sparse tensor in ascending order, as coo.packed has them, in little memory beside
// the tensor. Rows that ascend already are packed in one pass. Others are sorted range by range:
//
//   histogram of the rows -> ranges of rows with a bounded number of entries each
//   for each range: scan all indices for its entries, sort these by row, pack them
//
// The scans cost about a nanosecond an entry and range; the order of all entries would take 8 bytes
// an entry. Values are brought into this order while they are sent, with the same scans.
#ifndef SPARSEAGG_PYTHON_NATIVE_PACKING_H_
#define SPARSEAGG_PYTHON_NATIVE_PACKING_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "sparse/encodings/packed_block.h"

namespace sparseagg::native {

// Indices [nnz, sparse_dim] of i32 or i64, row-major. REQUIRES: each index is within the shape,
// whose indexed dimensions multiply to less than 2^63; sparse_dim > 0.
struct IndexArray {
  const void* data;
  const int64_t* dense_shape;  // [sparse_dim] or more
  uint64_t nnz;
  uint32_t sparse_dim;
  bool is_i32;
};

// Thread-safe. The indices must stay as they are as long as the object lives; their shape need not.
class Packing {
 public:
  // Returns null where packed indices and sorting would take more than `bytes_max`, where rows that
  // are close together have too many entries for one range, and where rows are so far apart that
  // row and position need more than 64 bits in any of 64 ranges.
  static std::unique_ptr<Packing> Make(const IndexArray& indices, uint64_t bytes_max);

  // The entries come in the order of the tensor.
  bool is_in_order() const { return ranges_.empty(); }
  uint64_t packed_bytes() const;
  // Writes packed_bytes() and frees the packed indices. REQUIRES: it was not called before.
  void TakePacked(char* out);

  // Writes the values of the entries [begin, end) of the ascending order; equal rows keep the order
  // of the tensor. `values` are those of the tensor, `row_bytes` each. REQUIRES: !is_in_order().
  void CopyValues(const char* values, uint64_t row_bytes, uint64_t begin, uint64_t end, char* out);

 private:
  struct Range {
    uint64_t first_row;
    uint64_t rows;
    uint64_t begin;  // position of its first entry in the ascending order
    uint64_t entries;
  };

  explicit Packing(const IndexArray& indices);
  // Copies the rows of the entries [begin, begin + count). Work is done on copies only, so that a
  // caller who changes the indices too early gets a wrong update and not a crash.
  const uint64_t* Rows(uint64_t begin, uint64_t count);
  // Appends the next rows of the ascending order. Returns false beyond `bytes_max`.
  bool Append(const uint64_t* rows, uint64_t count, uint64_t bytes_max);
  void AppendBlock(const uint64_t* rows, uint32_t count);
  bool PackInOrder(uint64_t bytes_max);
  bool MakeRanges(uint64_t entries_max);
  bool PackSorted(uint64_t bytes_max);
  // Sorts the entries of a range into keys_: row above the first of the range, then position.
  void Sort(const Range& range);

  IndexArray indices_;
  std::vector<int64_t> shape_;
  std::vector<uint64_t> buffer_;
  std::vector<uint64_t> waiting_;  // rows of the block that is not full
  std::vector<BlockEntry> entries_;
  std::deque<std::vector<uint32_t>> words_;  // pieces, so that no copy of all of them is made
  uint32_t num_words_ = 0;
  bool descends_ = false;

  int position_bits_;
  std::vector<Range> ranges_;  // empty: in order
  std::mutex mutex_;
  const Range* sorted_ = nullptr;  // whose entries are in keys_
  std::vector<uint64_t> keys_;
};

}  // namespace sparseagg::native

#endif  // SPARSEAGG_PYTHON_NATIVE_PACKING_H_
