#include "service/server_security.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace sparseagg {
namespace {

std::string_view EventOf(RoundState state) {
  switch (state) {
    case RoundState::kOpen:
      return "round_created";
    case RoundState::kSealed:
      return "round_sealed";
    case RoundState::kPublished:
      return "round_published";
    case RoundState::kAborted:
      return "round_aborted";
    case RoundState::kRetired:
      return "round_deleted";
  }
  return "round_changed";
}

AuditLog::Fields FieldsOf(const RoundSnapshot& round) {
  AuditLog::Fields fields = {{"contributors", absl::StrCat(round.contributors)}};
  if (!round.failure.empty()) fields.emplace_back("failure", round.failure);
  if (round.manifest.has_value()) {
    fields.emplace_back("result_digest", absl::BytesToHexString(round.manifest->result_digest));
  }
  return fields;
}

absl::StatusOr<std::unique_ptr<AuditLog>> OpenAuditLog(const std::string& path, const Log& log) {
  AuditOptions options{.path = path};
  options.on_trouble = [&log, path](const absl::Status& status) {
    if (status.ok()) return log.Info("the audit log can be written again", {{"file", path}});
    log.Error("the audit log cannot be written; lines are kept in memory",
              {{"file", path}, {"message", std::string(status.message())}});
  };
  return AuditLog::Open(options);
}

}  // namespace

absl::Status CheckTransport(const ServerConfig& config) {
  SPARSEAGG_RETURN_IF_ERROR(CheckTlsFiles(config.tls));
  if (config.tls.enabled() || config.allow_plaintext) return absl::OkStatus();
  for (const std::string& address : {config.listen, config.http_listen}) {
    if (address == "none" || IsLocalAddress(address)) continue;
    return MakeError(absl::StatusCode::kFailedPrecondition, "PLAINTEXT_REFUSED",
                     absl::StrCat("other machines can reach ", address,
                                  ", and updates would be sent unencrypted; set tls-cert and "
                                  "tls-key, or allow-plaintext if the network is private"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Authenticator>> OpenAuthenticator(
    const ServerConfig& config, decltype(AuthenticatorOptions::on_reload) on_reload) {
  if (config.credentials.empty() && config.jwt_keys.empty()) return nullptr;
  if (!config.jwt_keys.empty() &&
      (config.jwt_rules.issuer.empty() || config.jwt_rules.audience.empty())) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_CONFIG",
                     "jwt-keys needs jwt-issuer and jwt-audience, so that tokens for other "
                     "services are refused");
  }
  AuthenticatorOptions options;
  options.credentials_file = config.credentials;
  options.jwt_keys_file = config.jwt_keys;
  options.jwt_rules = config.jwt_rules;
  options.on_reload = std::move(on_reload);
  return Authenticator::Open(std::move(options));
}

absl::StatusOr<std::unique_ptr<Protection>> Protection::Make(const ServerConfig& config,
                                                             const Log& log) {
  SPARSEAGG_RETURN_IF_ERROR(CheckTransport(config));
  std::unique_ptr<Protection> made(new Protection(config));
  if (!config.audit_log.empty()) {
    SPARSEAGG_ASSIGN_OR_RETURN(made->audit_log_, OpenAuditLog(config.audit_log, log));
    made->trail_ = std::make_unique<AuditTrail>(*made->audit_log_);
    made->trail_ticker_ = std::make_unique<Ticker>(
        std::chrono::seconds(1), [trail = made->trail_.get()] { trail->EndPeriods(); });
  }
  const auto on_reload = [protection = made.get(), &log](const std::string& file,
                                                         const absl::Status& status) {
    protection->ReportReload(log, file, status);
  };
  SPARSEAGG_ASSIGN_OR_RETURN(made->authenticator_, OpenAuthenticator(config, on_reload));
  return made;
}

void Protection::ReportReload(const Log& log, const std::string& file, const absl::Status& status) {
  if (status.ok()) {
    log.Info("credentials read again", {{"file", file}});
    return Record("credentials_read", {{"file", file}});
  }
  const std::string message(status.message());
  log.Error("credentials cannot be read; the old ones stay in use",
            {{"file", file}, {"message", message}});
  Record("credentials_not_read", {{"file", file}, {"message", message}});
}

ServerSecurity Protection::ForEdge(const TlsFiles& tls, const Log& log) {
  ServerSecurity security{.tls = tls, .authenticator = authenticator_.get()};
  // The message names the invalid file.
  security.on_tls_reload = [this, &log, tls](const absl::Status& status) {
    std::vector<std::string> files = {tls.certificate, tls.key};
    if (!tls.client_authority.empty()) files.push_back(tls.client_authority);
    ReportReload(log, absl::StrJoin(files, ", "), status);
  };
  security.limits_of = [this](std::string_view tenant) { return LimitsOf(tenant); };
  if (trail_ == nullptr) return security;
  security.acting_for = [trail = trail_.get()](const Caller& caller) {
    return trail->ActingFor(caller.principal);
  };
  security.on_refused = [trail = trail_.get()](std::string_view rpc, const std::string& peer,
                                               const absl::Status& why) {
    const auto who = why.code() == absl::StatusCode::kUnauthenticated
                         ? AuditTrail::Refused::kUnauthenticated
                         : AuditTrail::Refused::kAuthenticated;
    trail->CallRefused(who, rpc, peer, ErrorReason(why), std::string(why.message()));
  };
  return security;
}

TenantLimits Protection::LimitsOf(std::string_view tenant) {
  TenantLimits limits = DefaultTenantLimits(limits_);
  if (authenticator_ == nullptr) return limits;
  const CredentialTable::LimitsByName own = authenticator_->LimitsOf(tenant);
  const auto take = [&own](std::string_view name, uint64_t& limit) {
    if (const auto found = own.find(name); found != own.end()) limit = found->second;
  };
  take("tenant-rounds-max", limits.rounds_max);
  take("tenant-bytes-max", limits.bytes_max);
  take("tenant-streams-max", limits.streams_max);
  take("tenant-uploads-max", limits.uploads_max);
  take("tenant-waits-max", limits.waits_max);
  return limits;
}

uint64_t Protection::TasksMaxOf(std::string_view tenant) {
  if (authenticator_ == nullptr) return tasks_max_;
  const CredentialTable::LimitsByName own = authenticator_->LimitsOf(tenant);
  const auto found = own.find("tenant-tasks-max");
  return found == own.end() ? tasks_max_ : found->second;
}

void Protection::Record(std::string_view event, AuditLog::Fields fields) {
  if (trail_ != nullptr) trail_->RecordServerEvent(event, std::move(fields));
}

void Protection::RecordTasks(std::string_view event, const std::string& tenant,
                             const AuditLog::Fields& fields) {
  if (trail_ != nullptr) trail_->TasksChanged(event, tenant, fields);
}

class Protection::Observer : public EngineObserver {
 public:
  explicit Observer(AuditTrail* trail) : trail_(trail) {}
  void OnRoundState(const RoundSnapshot& round) override {
    if (trail_ == nullptr) return;
    trail_->RoundChanged(EventOf(round.state), round.tenant, round.name, FieldsOf(round));
  }

 private:
  AuditTrail* const trail_;
};

std::shared_ptr<EngineObserver> Protection::observer() {
  return std::make_shared<Observer>(trail_.get());
}

void Protection::RecordRecovered(const RoundSnapshot& round) {
  if (trail_ == nullptr) return;
  AuditLog::Fields fields = FieldsOf(round);
  fields.emplace_back("state", RoundStateName(round.state));
  trail_->RoundChanged("round_recovered", round.tenant, round.name, fields);
}

}  // namespace sparseagg
