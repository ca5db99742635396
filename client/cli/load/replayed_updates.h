// Recorded updates for `sparseagg bench --replay`: files as `push` takes them.
#ifndef SPARSEAGG_CLIENT_CLI_LOAD_REPLAYED_UPDATES_H_
#define SPARSEAGG_CLIENT_CLI_LOAD_REPLAYED_UPDATES_H_

#include <span>
#include <string>
#include <vector>

#include "client/cli/load/load_updates.h"
#include "sparse/backend.h"

namespace sparseagg::cli {

class ReplayedUpdates : public LoadUpdates {
 public:
  // Reads one update from each file; the first file decides the tensors of the round. The reference
  // back end, which must be in `backends`, computes their sum. Errors are those of
  // ReadFileArgument() and MatchTensors().
  static absl::StatusOr<ReplayedUpdates> Read(const std::vector<std::string>& files,
                                              std::span<const BackendFactory> backends);

  std::vector<TensorSpec> specs() const override { return specs_; }
  std::vector<client::TensorView> update(uint64_t i) const override {
    return client::ViewsOf(pool_[i % pool_.size()]);
  }
  std::string file(uint64_t i) const override { return files_[i % files_.size()]; }
  absl::StatusOr<std::vector<client::Tensor>> SumsOf(uint64_t count) const override;

 private:
  explicit ReplayedUpdates(std::span<const BackendFactory> backends) : backends_(backends) {}

  std::span<const BackendFactory> backends_;
  std::vector<TensorSpec> specs_;
  std::vector<std::string> files_;  // of the pool
  std::vector<std::vector<client::Tensor>> pool_;
};

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_LOAD_REPLAYED_UPDATES_H_
