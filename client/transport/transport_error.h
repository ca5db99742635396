// What a call failed of that no sparseagg server answered: who did, whether that can change by
// itself, and what to do. tests/vectors/transport_errors.json has gRPC's words and what becomes of
// them, for the Python package, too.
#ifndef SPARSEAGG_CLIENT_TRANSPORT_TRANSPORT_ERROR_H_
#define SPARSEAGG_CLIENT_TRANSPORT_TRANSPORT_ERROR_H_

#include <grpcpp/support/status.h>

#include <optional>

#include "absl/status/status.h"
#include "client/transport/route.h"

namespace sparseagg::client {

// nullopt: these are the words of a server. REQUIRES: !status.ok(), and it has no reason.
std::optional<absl::Status> TransportError(const grpc::Status& status, const Route& route);

// Whether the next attempt would end as this one, as long as nobody changes anything.
bool IsLasting(const absl::Status& error);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_TRANSPORT_ERROR_H_
