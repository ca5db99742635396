// The security options of a server: TLS, authentication, limits of tenants, and callbacks for what
// must be logged.
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
  // Must outlive the server. Null: no authentication; every caller belongs to the default tenant
  // and has every role.
  Authenticator* authenticator = nullptr;
  std::function<TenantLimits(std::string_view tenant)> limits_of = [](std::string_view) {
    return TenantLimits();
  };
  // While the handle lives, changes that this thread makes are attributed to the caller (audit
  // log).
  std::function<std::shared_ptr<void>(const Caller&)> acting_for = [](const Caller&) {
    return nullptr;
  };
  // Called when a call was refused for its credential or role, or an update for its contributor.
  // From any thread; must not block.
  std::function<void(std::string_view rpc, const std::string& peer, const absl::Status& why)>
      on_refused = [](std::string_view, const std::string&, const absl::Status&) {};
  // Returns whether the principal holds a task of this round and contributor, so that it may submit
  // the update. From any thread; must not wait for the disk.
  std::function<bool(const std::string& tenant, const std::string& principal,
                     std::string_view round, std::string_view contributor)>
      holds_task = [](const std::string&, const std::string&, std::string_view, std::string_view) {
        return false;
      };
  // Called when the TLS files have changed: OK if they are now in use, otherwise what is wrong with
  // them. From any thread; must not block.
  std::function<void(const absl::Status& status)> on_tls_reload = [](const absl::Status&) {};
};

// Whether `listen` (HOST:PORT or unix:PATH) can be reached from this machine only.
bool IsLocalAddress(std::string_view listen);

// TLS credentials if security.tls names a certificate, otherwise insecure ones. After the files
// were replaced, new connections use the new certificate; invalid files change nothing. The result
// must outlive the server, because the builder does not keep it. REQUIRES:
// CheckTlsFiles(security.tls) is OK.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const ServerSecurity& security);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_SECURITY_H_
