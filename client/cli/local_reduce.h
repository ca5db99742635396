// The stateless operator in this process: the same core and back ends as the server's, so the same
// bytes.
#ifndef SPARSEAGG_CLIENT_CLI_LOCAL_REDUCE_H_
#define SPARSEAGG_CLIENT_CLI_LOCAL_REDUCE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "sparse/backend.h"

namespace sparseagg::cli {

// The back end `name`, or the first that can be made when it is empty. INVALID_ARGUMENT
// (UNKNOWN_BACKEND) with the names there are; FAILED_PRECONDITION (BACKEND_UNAVAILABLE).
absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(std::span<const BackendFactory> factories,
                                                     const std::string& name);

// Move-only: `tensors` refer to `entries` and `rows`.
struct LocalReduction {
  std::vector<client::TensorView> tensors;   // what client::Client::Reduce() answers
  std::vector<client::TensorStatus> status;  // how each of them was reduced
  std::vector<SparseTensor> entries;
  std::vector<HostVector<uint64_t>> rows;  // of those that keep none

  LocalReduction() = default;
  LocalReduction(LocalReduction&&) = default;
  LocalReduction& operator=(LocalReduction&&) = default;
  LocalReduction(const LocalReduction&) = delete;
  LocalReduction& operator=(const LocalReduction&) = delete;
};

// Errors of one update are named as OfUpdate() does. REQUIRES: there is an update. `bytes_max` is
// the most that the tensors of all updates can take: where there is room for it, they are reduced
// at once, otherwise in batches. `request.dense` and `request.progress` play no part.
absl::StatusOr<LocalReduction> ReduceLocally(const client::ReduceRequest& request,
                                             uint64_t bytes_max, Backend& backend);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_LOCAL_REDUCE_H_
