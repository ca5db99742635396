// Generated updates for `sparseagg bench`. Indices have the distributions of real models. Values
// are small whole numbers, so that the exact sum of any number of updates is known.
#ifndef SPARSEAGG_CLIENT_CLI_LOAD_SYNTHETIC_UPDATES_H_
#define SPARSEAGG_CLIENT_CLI_LOAD_SYNTHETIC_UPDATES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/load/load_updates.h"
#include "client/client.h"

namespace sparseagg::cli {

struct SyntheticShape {
  int64_t num_rows = 1'000'000;
  int64_t row_width = 1;
  uint64_t nnz_min = 1000;  // the nnz of an update is uniform in
  uint64_t nnz_max = 1000;  // [nnz_min, nnz_max]
  // "uniform": all rows have the same probability. "zipf": row r has a probability of about (r +
  // 1)^-1.1, as in a vocabulary sorted by frequency. "topk": 80 % of an update's rows come from a
  // set that all contributors share, as for the largest gradients; the others are uniform.
  std::string indices = "uniform";
  uint64_t seed = 1;
};

inline constexpr const char* kIndexDistributions[] = {"uniform", "zipf", "topk"};

class SyntheticUpdates : public LoadUpdates {
 public:
  // Makes `pool_size_max` updates, or fewer, but at least one, if they would take more than
  // `pool_bytes_max`. INVALID_ARGUMENT (BAD_ARGUMENT) for an invalid shape, for more entries than
  // rows, and for updates of more than 4 GiB.
  static absl::StatusOr<SyntheticUpdates> Make(const SyntheticShape& shape, size_t pool_size_max,
                                               uint64_t pool_bytes_max = uint64_t{1} << 30);

  std::vector<TensorSpec> specs() const override { return {spec_}; }
  std::vector<client::TensorView> update(uint64_t i) const override { return {tensor(i).view()}; }
  std::string file(uint64_t) const override { return ""; }
  absl::StatusOr<std::vector<client::Tensor>> SumsOf(uint64_t count) const override {
    return std::vector<client::Tensor>{SumOf(count)};
  }

  const TensorSpec& spec() const { return spec_; }
  const client::Tensor& tensor(uint64_t i) const { return pool_[i % pool_.size()]; }

  // The exact sum of the updates 0 to count - 1: the result that the server must publish.
  client::Tensor SumOf(uint64_t count) const;

 private:
  TensorSpec spec_;
  std::vector<client::Tensor> pool_;
};

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_LOAD_SYNTHETIC_UPDATES_H_
