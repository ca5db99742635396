#include "client/cli/load/replayed_updates.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/status.h"
#include "client/cli/local_reduce.h"
#include "client/cli/tensor_files.h"

namespace sparseagg::cli {
namespace {

client::Tensor CopyOf(const client::TensorView& view) {
  const CooView& entries = view.entries;
  client::Tensor tensor{view.name, view.dense_shape, view.sparse_dim, entries.layout, {}, {}};
  tensor.indices.assign(entries.rows.wide(), entries.rows.wide() + entries.nnz);
  tensor.values.resize(entries.nnz * entries.layout.row_bytes());
  if (!tensor.values.empty()) {
    std::memcpy(tensor.values.data(), entries.values, tensor.values.size());
  }
  return tensor;
}

// A term of the sum: an update of the pool, times a power of two.
struct Share {
  uint64_t update;
  float weight;
};

// The terms of the sum of the first `count` updates. An update that was sent n times has one term
// for each bit of n, because a product with a power of two is exact, while one with n is rounded in
// f64.
std::vector<Share> SharesOf(uint64_t count, uint64_t pool_size) {
  std::vector<Share> shares;
  for (uint64_t i = 0; i < std::min(count, pool_size); ++i) {
    const uint64_t times = TimesSent(i, count, pool_size);
    for (uint64_t bit = 1; bit <= times; bit *= 2) {
      if ((times & bit) != 0) shares.push_back({i, static_cast<float>(bit)});
    }
  }
  return shares;
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
  const std::vector<Share> shares = SharesOf(count, pool_.size());
  request.num_updates = shares.size();
  request.update = [this, &shares](uint64_t i) -> absl::StatusOr<client::Update> {
    client::Update update;
    update.weight = shares[i].weight;
    update.tensors = this->update(shares[i].update);
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
