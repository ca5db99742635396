// The byte arrays of an answer, produced piece by piece from the published tensors, so that a dense
// answer of terabytes, or the indices of a sparse one, never exist as a whole.
#ifndef SPARSEAGG_SERVICE_ENGINE_RESULT_RESULT_SOURCE_H_
#define SPARSEAGG_SERVICE_ENGINE_RESULT_RESULT_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sparse/types.h"

namespace sparseagg {

// Immutable. The tensors that it reads from must outlive it.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t bytes() const = 0;
  // REQUIRES: offset + n <= bytes().
  virtual void Read(uint64_t offset, size_t n, char* out) const = 0;
  // All of the bytes, if they are in memory; null otherwise.
  virtual const char* InMemory() const { return nullptr; }
};

// In a list of positions: the tensor has no entry for this row.
inline constexpr uint64_t kAbsentRow = ~uint64_t{0};

// Returns the position of each of `rows` among the entries of `tensor`, kAbsentRow if it has none.
std::vector<uint64_t> FindRows(const SparseTensor& tensor, const std::vector<uint64_t>& rows);

// Indices [nnz, indexed_dims.size()] as little-endian i64, row-major, of the entries at
// `positions`.
std::unique_ptr<ByteSource> MakeIndices(const SparseTensor& tensor,
                                        std::vector<int64_t> indexed_dims);
std::unique_ptr<ByteSource> MakeIndices(const SparseTensor& tensor,
                                        std::vector<int64_t> indexed_dims,
                                        std::vector<uint64_t> positions);

// The same in the encoding coo.packed, for the entries with these flattened rows; null if
// coo.packed cannot hold that many. Rows that are moved here need not outlive the result.
std::unique_ptr<ByteSource> MakePackedIndices(const RowIds& rows);
std::unique_ptr<ByteSource> MakePackedIndices(RowIds&& rows);

// Values of all entries, [nnz, row_width], or of those at `positions`, [positions.size(),
// row_width], with zeros for kAbsentRow.
std::unique_ptr<ByteSource> MakeValues(const SparseTensor& tensor);
std::unique_ptr<ByteSource> MakeValues(const SparseTensor& tensor, std::vector<uint64_t> positions);

// Values [num_rows, row_width], with zeros for rows without an entry. REQUIRES: the number of bytes
// fits 64 bits.
std::unique_ptr<ByteSource> MakeDenseValues(const SparseTensor& tensor);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_RESULT_RESULT_SOURCE_H_
