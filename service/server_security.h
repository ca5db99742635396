// From the configuration to what protects the server: certificates, credentials, and the refusal to
// serve the world without them.
#ifndef SPARSEAGG_SERVICE_SERVER_SECURITY_H_
#define SPARSEAGG_SERVICE_SERVER_SECURITY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "service/auth/authenticator.h"
#include "service/config.h"
#include "service/rpc/security.h"
#include "service/telemetry/log.h"

namespace sparseagg {

// FAILED_PRECONDITION (PLAINTEXT_REFUSED): an address that other machines reach, without TLS and
// without allow-plaintext. TLS_FILES_INVALID.
absl::Status CheckTransport(const ServerConfig& config);

// Null when the configuration names no credentials: everybody may do everything. Files that change
// later are reported to `log`, which must outlive the result. Errors are those of Open(), and
// INVALID_ARGUMENT (INVALID_CONFIG) for keys of tokens without issuer or audience.
absl::StatusOr<std::unique_ptr<Authenticator>> OpenAuthenticator(const ServerConfig& config,
                                                                 const Log& log);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_SERVER_SECURITY_H_
