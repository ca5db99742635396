// Who made a call that another listener of this process received and passes on (local_calls.h). The
// listener adds the caller's address and the names in its certificate to the metadata, with a
// secret that never leaves the process: the same metadata from anyone else has no effect.
#ifndef SPARSEAGG_SERVICE_RPC_LOCAL_FORWARDED_CALLER_H_
#define SPARSEAGG_SERVICE_RPC_LOCAL_FORWARDED_CALLER_H_

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include <optional>
#include <string>
#include <vector>

namespace sparseagg {

struct ForwardedCaller {
  std::string peer;  // its address, as gRPC writes it: "ipv4:192.0.2.1:50000"
  std::vector<std::string> certificate_names;  // PresentedCredentials::certificate_names
};

void AddForwardedCaller(const ForwardedCaller& caller, grpc::ClientContext& context);

// Returns nullopt for a call that came over gRPC's own port.
std::optional<ForwardedCaller> ReadForwardedCaller(const grpc::ServerContextBase& context);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_LOCAL_FORWARDED_CALLER_H_
