// The credentials of a client, and the authentication of the server.
#ifndef SPARSEAGG_CLIENT_TRANSPORT_CREDENTIALS_H_
#define SPARSEAGG_CLIENT_TRANSPORT_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/transport/address.h"

namespace sparseagg::client {

// Returns TLS credentials if `options` or the address (https://) requests TLS, otherwise plaintext
// ones. FAILED_PRECONDITION: FILE_UNREADABLE, TLS_FILE_INVALID; INVALID_ARGUMENT: TOKEN_NEEDS_TLS
// if a token would be sent to another machine in plaintext, INVALID_TARGET for http:// with
// options.tls.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const Address& address, const ClientOptions& options);

// Reads the token from a file, without surrounding white space. FAILED_PRECONDITION
// (FILE_UNREADABLE).
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

}  // namespace sparseagg::client

#endif  // SPARSEAGG_CLIENT_TRANSPORT_CREDENTIALS_H_
