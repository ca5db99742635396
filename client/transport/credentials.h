// How a client proves who it is, and checks whom it talks to.
#ifndef SPARSEAGG_CLIENT_TRANSPORT_CREDENTIALS_H_
#define SPARSEAGG_CLIENT_TRANSPORT_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/transport/address.h"

namespace sparseagg::client {

// TLS where `options` or the address (https://) asks for it, or plaintext. FAILED_PRECONDITION
// (FILE_UNREADABLE, TLS_FILE_INVALID); INVALID_ARGUMENT: TOKEN_NEEDS_TLS where a token would travel
// in the clear to another machine, INVALID_TARGET for http:// beside options.tls.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const Address& address, const ClientOptions& options);

// The token in a file, without white space around it. FAILED_PRECONDITION (FILE_UNREADABLE).
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_CREDENTIALS_H_
