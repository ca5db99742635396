// The stateless operator in this process, with the same core and back ends as the server, and so
// with the same bits.
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

// Opens the back end `name`, or the first available one if it is empty. INVALID_ARGUMENT
// (UNKNOWN_BACKEND), which lists the names; FAILED_PRECONDITION (BACKEND_UNAVAILABLE).
absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(std::span<const BackendFactory> factories,
                                                     const std::string& name);

// Move-only: `tensors` refer to `entries` and `rows`.
struct LocalReduction {
  std::vector<client::TensorView> tensors;   // the result of client::Client::Reduce()
  std::vector<client::TensorStatus> status;  // how each of them was reduced
  std::vector<SparseTensor> entries;
  std::vector<HostVector<uint64_t>> rows;  // of tensors that do not store their rows

  LocalReduction() = default;
  LocalReduction(LocalReduction&&) = default;
  LocalReduction& operator=(LocalReduction&&) = default;
  LocalReduction(const LocalReduction&) = delete;
  LocalReduction& operator=(const LocalReduction&) = delete;
};

// Reduces the updates of `request`; `request.dense` and `request.progress` are ignored. `bytes_max`
// is an upper bound for the bytes of all updates: if there is memory for it, they are reduced at
// once, otherwise in batches. AttributeToUpdate() adds the update to its errors. REQUIRES: there is
// at least one update.
absl::StatusOr<LocalReduction> ReduceLocally(const client::ReduceRequest& request,
                                             uint64_t bytes_max, Backend& backend);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_LOCAL_REDUCE_H_
