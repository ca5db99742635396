// Matrix Market exchange files.
//
//   %%MatrixMarket matrix coordinate FIELD general|symmetric|skew-symmetric
//   % comments
//   rows columns entries
//   row column [value]      one line an entry, numbered from 1; pattern has no value
//
//   %%MatrixMarket matrix array FIELD general|symmetric|skew-symmetric
//   rows columns
//   value                   one line a value, column by column
//
//   FIELD := real | double | integer | unsigned-integer | pattern (coordinate only)
//
// Comments and blank lines may occur anywhere after the first line, and a comment after an entry. A
// coordinate file is a sparse tensor with sparse_dim 2, an array file a dense one (sparse_dim 0).
// Symmetric coordinate files list one of the two triangles, symmetric array files the lower one
// (skew-symmetric ones without the diagonal); they are read as the whole matrix. A pattern entry
// has the value 1. Complex and hermitian files are refused. The file may be compressed with gzip.
#ifndef SPARSEAGG_CLIENT_IO_MATRIX_MARKET_H_
#define SPARSEAGG_CLIENT_IO_MATRIX_MARKET_H_

#include <string>

#include "client/io/tensor_file.h"
#include "client/tensor.h"

namespace sparseagg::client {

absl::StatusOr<Tensor> ReadMatrixMarket(const std::string& path, const ReadOptions& options);

// REQUIRES: CheckMatrixMarket(tensor) is OK.
absl::Status WriteMatrixMarket(const std::string& path, const TensorView& tensor);

// INVALID_ARGUMENT (UNSUITABLE_FORMAT) unless the tensor is a matrix: sparse with two indexed
// dimensions, or dense with two dimensions.
absl::Status CheckMatrixMarket(const std::string& path, const TensorView& tensor);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_IO_MATRIX_MARKET_H_
