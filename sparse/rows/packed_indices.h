// Generates the index bytes of coo.packed piece by piece, so that those of a large result never
// exist as a whole.
#ifndef SPARSEAGG_SPARSE_ROWS_PACKED_INDICES_H_
#define SPARSEAGG_SPARSE_ROWS_PACKED_INDICES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sparse/rows/row_ids.h"

namespace sparseagg {

// Immutable. Holds five bytes for 256 rows; the rows must outlive it.
class PackedIndices {
 public:
  explicit PackedIndices(const RowIds& rows);

  // False when the blocks have more words than coo.packed can hold (16 GiB of them).
  bool fits() const { return fits_; }
  uint64_t bytes() const { return directory_bytes() + uint64_t{begins_.back()} * 4; }
  // Bytes [offset, offset + n) of the array. REQUIRES: fits(); offset + n <= bytes().
  void Read(uint64_t offset, size_t n, char* out) const;

 private:
  uint64_t directory_bytes() const;
  std::span<const uint64_t> RowsOf(size_t block, uint64_t* buffer) const;

  const RowIds& rows_;
  std::vector<uint32_t> begins_;  // first word of each block, and the end
  std::vector<uint8_t> forms_;
  bool fits_ = true;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SPARSE_ROWS_PACKED_INDICES_H_
