// One attempt of a gRPC call: its context, and its outcome as an absl::Status.
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

// Who calls, and whom: what every attempt of a client needs.
struct Caller {
  Route route;
  ClientOptions options;
  pid_t process = getpid();  // that made the client
};

// FAILED_PRECONDITION (CLIENT_FORKED) where `process`, which used gRPC, is another one: gRPC would
// wait for threads that a forked child does not have.
absl::Status CheckProcess(pid_t process);

// Sets the deadline, 0 means none, and the token. Errors are those of CheckProcess() and
// options.token, and INVALID_ARGUMENT (TOKEN_INVALID) for one that is not printable ASCII.
absl::Status Prepare(grpc::ClientContext& context, const Caller& caller, uint64_t timeout_ms);

// The outcome of a call. Errors that the server did not make get a reason and a message that says
// who answered (client.h). Asks a server that closes the connection whether it speaks TLS.
absl::Status ToStatus(const grpc::Status& status, const Route& route);

// "rounds/{id}" of a name with or without "rounds/".
std::string RoundName(const std::string& name);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_CALL_H_
