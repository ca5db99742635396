// Sets up the server's security from its configuration: TLS, authentication and the audit log.
// Refuses to serve other machines in plaintext unless the configuration allows it.
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

// FAILED_PRECONDITION (PLAINTEXT_REFUSED) if other machines can reach an address and neither TLS
// nor allow-plaintext is set; INVALID_ARGUMENT (TLS_FILES_INVALID).
absl::Status CheckTransport(const ServerConfig& config);

// Opens the credential files of the configuration; null if it names none. INVALID_ARGUMENT
// (INVALID_CONFIG) for jwt-keys without jwt-issuer or jwt-audience, and the errors of
// Authenticator::Open().
absl::StatusOr<std::unique_ptr<Authenticator>> OpenAuthenticator(
    const ServerConfig& config, decltype(AuthenticatorOptions::on_reload) on_reload);

// Must outlive the engine and the gRPC server.
class Protection {
 public:
  // Errors are those of CheckTransport(), AuditLog::Open() and OpenAuthenticator(). `log` must
  // outlive the result.
  static absl::StatusOr<std::unique_ptr<Protection>> Make(const ServerConfig& config,
                                                          const Log& log);

  // Null if the configuration names no credentials: every caller may do everything.
  Authenticator* authenticator() const { return authenticator_.get(); }
  // `log` must outlive the result.
  ServerSecurity ForEdge(const TlsFiles& tls, const Log& log);
  // The tenant's limits in the credentials file, or else those of the configuration.
  TenantLimits LimitsOf(std::string_view tenant);
  uint64_t TasksMaxOf(std::string_view tenant);

  // These append to the audit log, if there is one.
  void Record(std::string_view event, AuditLog::Fields fields);
  void RecordRecovered(const RoundSnapshot& round);
  void RecordTasks(std::string_view event, const std::string& tenant,
                   const AuditLog::Fields& fields);
  // Records every state change of a round. Must not outlive this.
  std::shared_ptr<EngineObserver> observer();

 private:
  explicit Protection(const ServerConfig& config)
      : limits_(config.limits), tasks_max_(config.task_limits.tenant_tasks_max) {}
  class Observer;
  void ReportReload(const Log& log, const std::string& file, const absl::Status& status);

  const Limits limits_;
  const uint64_t tasks_max_;  // of a tenant without a limit of its own
  std::unique_ptr<AuditLog> audit_log_;
  std::unique_ptr<AuditTrail> trail_;
  std::unique_ptr<Ticker> trail_ticker_;
  std::unique_ptr<Authenticator> authenticator_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_SERVER_SECURITY_H_
