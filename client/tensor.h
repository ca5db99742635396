// Tensors as a user of the client library holds them: a name, a shape, and entries in COO form.
//
// Entries are flattened as everywhere in the project (sparse/types.h): an index is the row-major
// position among the first `sparse_dim` dimensions, and each entry has a row of `row_width` values.
#ifndef SPARSEAGG_CLIENT_TENSOR_H_
#define SPARSEAGG_CLIENT_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "sparse/types.h"

namespace sparseagg::client {

// A view of entries in the caller's memory, with the name and shape of their tensor.
struct TensorView {
  std::string name;
  std::vector<int64_t> dense_shape;
  uint32_t sparse_dim = 0;
  CooView entries;
};

// A tensor with its entries, which need be neither sorted nor distinct. A dense tensor (sparse_dim
// 0) has one entry, row 0, with all of its values, or no entry if it adds nothing.
struct Tensor {
  std::string name;
  std::vector<int64_t> dense_shape;
  uint32_t sparse_dim = 0;
  TensorLayout layout;
  std::vector<uint64_t> indices;  // [nnz]
  std::vector<std::byte> values;  // [nnz, row_width] of layout.value_type

  uint64_t nnz() const { return indices.size(); }
  // Valid while the tensor lives unchanged.
  TensorView view() const {
    return {name, dense_shape, sparse_dim, {layout, indices.size(), indices.data(), values.data()}};
  }
};

// An empty tensor (nnz 0) of this name, type and shape. INVALID_ARGUMENT as MakeLayout() says.
absl::StatusOr<Tensor> MakeEmptyTensor(const TensorSpec& spec);

// Valid while the tensors live unchanged.
std::vector<TensorView> ViewsOf(const std::vector<Tensor>& tensors);

// The spec of this tensor, with the operator "sum".
TensorSpec SpecOf(const Tensor& tensor);
TensorSpec SpecOf(const TensorView& tensor);

// Flattens `index` (of sparse_dim numbers) among the leading dimensions of `dense_shape`.
// OUT_OF_RANGE (INDEX_OUT_OF_RANGE), naming the dimension, when a number is outside of it.
absl::StatusOr<uint64_t> FlattenIndex(std::span<const int64_t> index,
                                      std::span<const int64_t> dense_shape);

// The inverse: writes the indices of row `row`, one for each dimension of `indexed_shape`, to
// `index`.
void UnflattenIndex(uint64_t row, std::span<const int64_t> indexed_shape, std::span<int64_t> index);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TENSOR_H_
