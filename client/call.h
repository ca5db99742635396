// One attempt of a gRPC call: its context, and its outcome as an absl::Status.
#ifndef SPARSEAGG_CLIENT_CALL_H_
#define SPARSEAGG_CLIENT_CALL_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "client/client.h"

namespace sparseagg::client {

// Sets the deadline, 0 means none, and the token. Errors are those of options.token, and
// INVALID_ARGUMENT (TOKEN_INVALID) for one that is not printable ASCII.
absl::Status Prepare(grpc::ClientContext& context, const ClientOptions& options,
                     uint64_t timeout_ms);

// The outcome of a call to `target`. Errors that the server did not make get a reason and a message
// that names the target (client.h).
absl::Status ToStatus(const grpc::Status& status, const std::string& target);

// "rounds/{id}" of a name with or without "rounds/".
std::string RoundName(const std::string& name);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_CALL_H_
