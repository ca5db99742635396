// One attempt of a gRPC call: prepares its context, and converts its outcome to an absl::Status.
#ifndef SPARSEAGG_CLIENT_TRANSPORT_CALL_H_
#define SPARSEAGG_CLIENT_TRANSPORT_CALL_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "client/client.h"
#include "client/transport/route.h"

namespace sparseagg::client {

// The server, the options and the process of a client, for all of its attempts.
struct Caller {
  Route route;
  ClientOptions options;
  pid_t process = getpid();  // the process that made the client
};

// FAILED_PRECONDITION (CLIENT_FORKED) if this process is not `process`, which has used gRPC: gRPC
// would wait for threads that do not exist in a forked child.
absl::Status CheckProcess(pid_t process);

// Sets the deadline (0: none) and the token. Errors are those of CheckProcess() and options.token,
// and INVALID_ARGUMENT (TOKEN_INVALID) for a token that is not printable ASCII.
absl::Status Prepare(grpc::ClientContext& context, const Caller& caller, uint64_t timeout_ms);

// Converts the outcome of a call. Errors that did not come from a sparseagg server get a reason and
// a message that says what answered (client.h). If the server closes the connection, this probes
// whether it speaks TLS.
absl::Status ToStatus(const grpc::Status& status, const Route& route);

// Returns "rounds/{id}" for a name with or without "rounds/".
std::string RoundName(const std::string& name);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_CALL_H_
