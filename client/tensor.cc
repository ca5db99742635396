#include "client/tensor.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg::client {

absl::StatusOr<Tensor> MakeEmptyTensor(const TensorSpec& spec) {
  SPARSEAGG_ASSIGN_OR_RETURN(const TensorLayout layout, MakeLayout(spec));
  return Tensor{spec.name, spec.dense_shape, spec.sparse_dim, layout, {}, {}};
}

std::vector<TensorView> ViewsOf(const std::vector<Tensor>& tensors) {
  std::vector<TensorView> views;
  views.reserve(tensors.size());
  for (const Tensor& tensor : tensors) views.push_back(tensor.view());
  return views;
}

TensorSpec SpecOf(const TensorView& tensor) {
  TensorSpec spec;
  spec.name = tensor.name;
  spec.value_type = tensor.entries.layout.value_type;
  spec.dense_shape = tensor.dense_shape;
  spec.sparse_dim = tensor.sparse_dim;
  return spec;
}

TensorSpec SpecOf(const Tensor& tensor) { return SpecOf(tensor.view()); }

absl::StatusOr<uint64_t> FlattenIndex(std::span<const int64_t> index,
                                      std::span<const int64_t> dense_shape) {
  uint64_t row = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    if (index[d] < 0 || index[d] >= dense_shape[d]) {
      return MakeError(absl::StatusCode::kOutOfRange, "INDEX_OUT_OF_RANGE",
                       absl::StrCat("index ", index[d], " of dimension ", d, " is not in [0, ",
                                    dense_shape[d], ")"));
    }
    row = row * static_cast<uint64_t>(dense_shape[d]) + static_cast<uint64_t>(index[d]);
  }
  return row;
}

void UnflattenIndex(uint64_t row, std::span<const int64_t> indexed_shape,
                    std::span<int64_t> index) {
  for (size_t d = indexed_shape.size(); d-- > 0;) {
    const auto dimension = static_cast<uint64_t>(indexed_shape[d]);
    index[d] = static_cast<int64_t>(row % dimension);
    row /= dimension;
  }
}

}  // namespace sparseagg::client
