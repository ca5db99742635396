// From the configuration to what protects the server: certificates, credentials, the audit log, and
// the refusal to serve the world without them.
#ifndef SPARSEAGG_SERVICE_SERVER_SECURITY_H_
#define SPARSEAGG_SERVICE_SERVER_SECURITY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "service/audit/audit_log.h"
#include "service/audit/audit_trail.h"
#include "service/auth/authenticator.h"
#include "service/config/config.h"
#include "service/engine/engine.h"
#include "service/rpc/security.h"
#include "service/rpc/ticker.h"
#include "service/telemetry/log.h"

namespace sparseagg {

// FAILED_PRECONDITION (PLAINTEXT_REFUSED): an address that other machines reach, without TLS and
// without allow-plaintext. TLS_FILES_INVALID.
absl::Status CheckTransport(const ServerConfig& config);

// Who may call, as the files of the configuration say; null when it names none. INVALID_ARGUMENT
// (INVALID_CONFIG) for keys of tokens without issuer or audience; errors of Authenticator::Open().
absl::StatusOr<std::unique_ptr<Authenticator>> OpenAuthenticator(
    const ServerConfig& config, decltype(AuthenticatorOptions::on_reload) on_reload);

// Outlives the engine and the gRPC server.
class Protection {
 public:
  // Errors are those of CheckTransport(), AuditLog::Open() and OpenAuthenticator(). `log` must
  // outlive the result.
  static absl::StatusOr<std::unique_ptr<Protection>> Make(const ServerConfig& config,
                                                          const Log& log);

  // Null when the configuration names no credentials: everybody may do everything.
  Authenticator* authenticator() const { return authenticator_.get(); }
  // `log` must outlive the result.
  ServerSecurity ForEdge(const TlsFiles& tls, const Log& log);
  // Those of the configuration, or the tenant's own in the credentials file.
  TenantLimits LimitsOf(std::string_view tenant);

  // Lines of the audit log; nothing where there is none.
  void Record(std::string_view event, AuditLog::Fields fields);
  void RecordRecovered(const RoundSnapshot& round);
  // Records every state that a round gets into. Not beyond the life of this.
  std::shared_ptr<EngineObserver> observer();

 private:
  explicit Protection(const Limits& limits) : limits_(limits) {}
  class Observer;
  void ReportReload(const Log& log, const std::string& file, const absl::Status& status);

  const Limits limits_;
  std::unique_ptr<AuditLog> audit_log_;
  std::unique_ptr<AuditTrail> trail_;
  std::unique_ptr<Ticker> trail_ticker_;
  std::unique_ptr<Authenticator> authenticator_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_SERVER_SECURITY_H_
