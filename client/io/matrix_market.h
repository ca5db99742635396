// Matrix Market exchange files.
//
//   %%MatrixMarket matrix coordinate real|double|integer|pattern general|symmetric|skew-symmetric
//   % comments
//   rows columns entries
//   row column [value]      one line an entry, numbered from 1; pattern has no value
//
//   %%MatrixMarket matrix array real|double|integer general
//   rows columns
//   value                   one line a value, column by column
//
// Comments and blank lines may stand anywhere after the first line.
// A coordinate file is a sparse tensor with sparse_dim 2, an array file a dense one (sparse_dim 0).
// Symmetric files hold the lower triangle, skew-symmetric ones without the diagonal, and are read
// as the whole matrix. A pattern entry has the value 1. Complex and hermitian files are refused.
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
