// The byte arrays of an answer, produced piece by piece from the published tensors: a dense answer
// of terabytes, or the indices of a sparse one, never exist as a whole.
#ifndef SPARSEAGG_SERVICE_RPC_RESULT_RESULT_SOURCE_H_
#define SPARSEAGG_SERVICE_RPC_RESULT_RESULT_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sparse/types.h"

namespace sparseagg {

// Immutable. What it reads from must outlive it.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t bytes() const = 0;
  // REQUIRES: offset + n <= bytes().
  virtual void Read(uint64_t offset, size_t n, char* out) const = 0;
  // The whole, where it lies in memory anyway.
  virtual const char* InMemory() const { return nullptr; }
};

// Stands in a list of positions for a row that the tensor does not hold.
inline constexpr uint64_t kAbsentRow = ~uint64_t{0};

// Position of each of `rows` among the entries of `tensor`, kAbsentRow where there is none.
std::vector<uint64_t> FindRows(const SparseTensor& tensor, const std::vector<uint64_t>& rows);

// Indices [nnz, indexed_dims.size()] as little-endian i64, row-major, of the entries at
// `positions`.
std::unique_ptr<ByteSource> MakeIndices(const SparseTensor& tensor,
                                        std::vector<int64_t> indexed_dims);
std::unique_ptr<ByteSource> MakeIndices(const SparseTensor& tensor,
                                        std::vector<int64_t> indexed_dims,
                                        std::vector<uint64_t> positions);

// The same as coo.packed, of the entries whose flattened rows these are; null when it cannot hold
// so many. Rows that are moved here need not outlive it.
std::unique_ptr<ByteSource> MakePackedIndices(const RowIds& rows);
std::unique_ptr<ByteSource> MakePackedIndices(RowIds&& rows);

// Values [nnz, row_width]: of all entries, or [positions.size(), row_width] with zeros for
// kAbsentRow.
std::unique_ptr<ByteSource> MakeValues(const SparseTensor& tensor);
std::unique_ptr<ByteSource> MakeValues(const SparseTensor& tensor, std::vector<uint64_t> positions);

// Values [num_rows, row_width], zeros where the tensor holds nothing. REQUIRES: the product fits 64
// bits.
std::unique_ptr<ByteSource> MakeDenseValues(const SparseTensor& tensor);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_RESULT_RESULT_SOURCE_H_
