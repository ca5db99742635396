// A leaf over gRPC.
#ifndef SPARSEAGG_SERVICE_TREE_GRPC_LEAF_H_
#define SPARSEAGG_SERVICE_TREE_GRPC_LEAF_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "service/tree/leaf_link.h"

namespace sparseagg {

// Does not connect; the first call does. Uses the TLS and the token of `options`. Errors are those
// of client::Client::Connect().
absl::StatusOr<std::unique_ptr<LeafLink>> MakeGrpcLeaf(const std::string& address,
                                                       const client::ClientOptions& options);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TREE_GRPC_LEAF_H_
