#include "service/server_security.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "sparse/status.h"

namespace sparseagg {

absl::Status CheckTransport(const ServerConfig& config) {
  SPARSEAGG_RETURN_IF_ERROR(CheckTlsFiles(config.tls));
  if (config.tls.enabled() || config.allow_plaintext || IsLocalAddress(config.listen)) {
    return absl::OkStatus();
  }
  return MakeError(
      absl::StatusCode::kFailedPrecondition, "PLAINTEXT_REFUSED",
      absl::StrCat("other machines can reach ", config.listen,
                   ", and updates would travel in the clear; set tls-cert and tls-key, or "
                   "allow-plaintext where the network itself is private"));
}

absl::StatusOr<std::unique_ptr<Authenticator>> OpenAuthenticator(const ServerConfig& config,
                                                                 const Log& log) {
  if (config.credentials.empty() && config.jwt_keys.empty()) return nullptr;
  if (!config.jwt_keys.empty() &&
      (config.jwt_rules.issuer.empty() || config.jwt_rules.audience.empty())) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_CONFIG",
                     "jwt-keys needs jwt-issuer and jwt-audience: tokens for other services must "
                     "not be good here");
  }
  AuthenticatorOptions options;
  options.credentials_file = config.credentials;
  options.jwt_keys_file = config.jwt_keys;
  options.jwt_rules = config.jwt_rules;
  options.on_reload = [&log](const std::string& file, const absl::Status& status) {
    if (status.ok()) return log.Info("credentials read again", {{"file", file}});
    log.Error("credentials not read, the old ones stay in force",
              {{"file", file}, {"message", std::string(status.message())}});
  };
  return Authenticator::Open(std::move(options));
}

}  // namespace sparseagg
