// How a server is protected, and who is told of it.
#ifndef SPARSEAGG_SERVICE_RPC_SECURITY_H_
#define SPARSEAGG_SERVICE_RPC_SECURITY_H_

#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "service/auth/authenticator.h"
#include "service/auth/tls_files.h"
#include "service/engine/limits.h"

namespace sparseagg {

struct ServerSecurity {
  TlsFiles tls;
  // Outlives the server. Null: nobody is asked for a credential, everybody is the default tenant's
  // and has every role.
  Authenticator* authenticator = nullptr;
  std::function<TenantLimits(std::string_view tenant)> limits_of = [](std::string_view) {
    return TenantLimits();
  };
  // While the handle lives, what this thread does is done by the caller.
  std::function<std::shared_ptr<void>(const Caller&)> acting_for = [](const Caller&) {
    return nullptr;
  };
  // A call that was refused for lack of a credential or a role, or an update in another's name. Any
  // thread; must not block.
  std::function<void(std::string_view rpc, const std::string& peer, const absl::Status& why)>
      on_refused = [](std::string_view, const std::string&, const absl::Status&) {};
  // The TLS files changed: they are in force (OK), or broken and why. Any thread; must not block.
  std::function<void(const absl::Status& status)> on_tls_reload = [](const absl::Status&) {};
};

// Whether `listen` (HOST:PORT or unix:PATH) can be reached from this machine only.
bool IsLocalAddress(std::string_view listen);

// TLS when security.tls names a certificate. Connections that are made after the files were
// replaced have the new certificate; files that are broken change nothing. Must outlive the server,
// whose builder does not keep it. REQUIRES: CheckTlsFiles(security.tls) is OK.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const ServerSecurity& security);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_SECURITY_H_
