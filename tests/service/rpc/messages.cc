#include "tests/service/rpc/messages.h"

#include <utility>

namespace sparseagg::testing {

v1::TensorSpec VectorSpec(const std::string& name, int64_t size, const std::string& op) {
  v1::TensorSpec spec;
  spec.set_name(name);
  spec.set_value_type(v1::VALUE_TYPE_F32);
  spec.add_dense_shape(size);
  spec.set_sparse_dim(1);
  spec.set_op(op);
  return spec;
}

v1::RoundSpec VectorRound(const std::string& name, int64_t size, const std::string& op) {
  v1::RoundSpec spec;
  *spec.add_tensors() = VectorSpec(name, size, op);
  return spec;
}

v1::Tensor VectorEntries(const std::string& name, int64_t size, const std::vector<int64_t>& indices,
                         const std::vector<float>& values) {
  v1::Tensor tensor;
  v1::TensorHeader& header = *tensor.mutable_header();
  header.set_name(name);
  header.set_value_type(v1::VALUE_TYPE_F32);
  header.add_dense_shape(size);
  header.set_sparse_dim(1);
  header.set_nnz(indices.size());
  tensor.set_indices(Bytes(indices));
  tensor.set_values(Bytes(values));
  return tensor;
}

v1::SubmitUpdateRequest VectorUpdate(const std::string& round, const std::string& contributor,
                                     v1::Tensor tensor) {
  v1::SubmitUpdateRequest update;
  update.mutable_header()->set_round(round);
  update.mutable_header()->set_contributor(contributor);
  update.mutable_header()->set_update_id("u-" + contributor);
  *update.add_tensors() = std::move(tensor);
  return update;
}

ChunkedUpdate Chunked(const v1::SubmitUpdateRequest& update) {
  ChunkedUpdate chunked;
  *chunked.begin.mutable_header() = update.header();
  for (const v1::Tensor& tensor : update.tensors()) {
    v1::TensorHeader& header = *chunked.begin.add_tensors();
    header = tensor.header();
    header.set_indices_bytes(tensor.indices().size());
    header.set_values_bytes(tensor.values().size());
    chunked.bytes += tensor.indices() + tensor.values();
  }
  return chunked;
}

v1::UpdateChunk ChunkOf(const ChunkedUpdate& update, uint64_t offset, uint64_t size) {
  v1::UpdateChunk chunk;
  chunk.set_update_id(update.begin.header().update_id());
  chunk.set_offset(offset);
  chunk.set_data(update.bytes.substr(offset, size));
  return chunk;
}

}  // namespace sparseagg::testing
