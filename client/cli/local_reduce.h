// The stateless operator in this process: the same core and back ends as the server's, so the same
// bytes.
#ifndef SPARSEAGG_CLIENT_CLI_LOCAL_REDUCE_H_
#define SPARSEAGG_CLIENT_CLI_LOCAL_REDUCE_H_

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

// What client::Client::Reduce() answers, without a manifest. `request.dense` and `request.progress`
// play no part.
absl::StatusOr<std::vector<client::Tensor>> ReduceLocally(const client::ReduceRequest& request,
                                                          Backend& backend);

}  // namespace sparseagg::cli

#endif  // SPARSEAGG_CLIENT_CLI_LOCAL_REDUCE_H_
