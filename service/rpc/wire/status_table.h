// The one place where an engine error becomes a gRPC status: the same code and message, and the
// reason and retry hint as google.rpc.Status details ("grpc-status-details-bin"). docs/api.md lists
// the reasons.
#ifndef SPARSEAGG_SERVICE_RPC_WIRE_STATUS_TABLE_H_
#define SPARSEAGG_SERVICE_RPC_WIRE_STATUS_TABLE_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace sparseagg {

grpc::Status ToGrpcStatus(const absl::Status& status);

// The error of a call that ends because the server stops: UNAVAILABLE (SERVER_DRAINING) with a
// retry hint.
absl::Status DrainingError();

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_WIRE_STATUS_TABLE_H_
