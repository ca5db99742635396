#include "client/cli/replayed_updates.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "client/cli/local_reduce.h"
#include "client/cli/tensor_files.h"
#include "sparse/status.h"

namespace sparseagg::cli {
namespace {

client::Tensor CopyOf(const client::TensorView& view) {
  const CooView& entries = view.entries;
  client::Tensor tensor{view.name, view.dense_shape, view.sparse_dim, entries.layout, {}, {}};
  tensor.indices.assign(entries.indices, entries.indices + entries.nnz);
  tensor.values.resize(entries.nnz * entries.layout.row_bytes());
  if (!tensor.values.empty()) {
    std::memcpy(tensor.values.data(), entries.values, tensor.values.size());
  }
  return tensor;
}

}  // namespace

absl::StatusOr<ReplayedUpdates> ReplayedUpdates::Read(const std::vector<std::string>& files,
                                                      std::span<const BackendFactory> backends) {
  ReplayedUpdates updates(backends);
  updates.files_ = files;
  for (const std::string& file : files) {
    SPARSEAGG_ASSIGN_OR_RETURN(auto tensors, ReadFileArgument(file, std::nullopt));
    if (updates.pool_.empty()) {
      for (client::Tensor& tensor : tensors) {
        if (tensor.name.empty()) tensor.name = kUnnamedTensor;
        updates.specs_.push_back(client::SpecOf(tensor));
      }
    }
    SPARSEAGG_ASSIGN_OR_RETURN(tensors, MatchTensors(updates.specs_, std::move(tensors), file));
    updates.pool_.push_back(std::move(tensors));
  }
  return updates;
}

absl::StatusOr<std::vector<client::Tensor>> ReplayedUpdates::SumsOf(uint64_t count) const {
  SPARSEAGG_ASSIGN_OR_RETURN(const auto backend, OpenBackend(backends_, "reference"));
  client::ReduceRequest request;
  request.tensors = specs_;
  request.num_updates = std::min<uint64_t>(count, pool_.size());
  // An update that was sent n times has the exact sum of one with the weight n.
  request.update = [this, count](uint64_t i) -> absl::StatusOr<client::Update> {
    client::Update update;
    update.weight = static_cast<float>((count - i + pool_.size() - 1) / pool_.size());
    update.tensors = this->update(i);
    return update;
  };
  SPARSEAGG_ASSIGN_OR_RETURN(
      const LocalReduction reduced,
      ReduceLocally(request, std::numeric_limits<uint64_t>::max(), *backend));
  std::vector<client::Tensor> sums;
  for (const client::TensorView& tensor : reduced.tensors) sums.push_back(CopyOf(tensor));
  return sums;
}

}  // namespace sparseagg::cli
