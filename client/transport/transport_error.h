// Explains the error of a call that no sparseagg server answered: what answered instead, whether a
// retry can help, and what to do. tests/vectors/transport_errors.json lists gRPC's messages and the
// errors made from them, for this library and the Python package.
#ifndef SPARSEAGG_CLIENT_TRANSPORT_TRANSPORT_ERROR_H_
#define SPARSEAGG_CLIENT_TRANSPORT_TRANSPORT_ERROR_H_

#include <grpcpp/support/status.h>

#include <optional>

#include "absl/status/status.h"
#include "client/transport/route.h"

namespace sparseagg::client {

// Returns nullopt if a sparseagg server made the error. REQUIRES: !status.ok(), and it has no
// reason.
std::optional<absl::Status> TransportError(const grpc::Status& status, const Route& route);

// Returns whether another attempt would fail in the same way until someone fixes the cause.
bool IsPermanent(const absl::Status& error);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_TRANSPORT_ERROR_H_
