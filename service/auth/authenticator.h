// Authenticates callers by token or client certificate. The files of credentials and keys are
// checked for changes every second; an invalid file leaves the last valid content in use.
#ifndef SPARSEAGG_SERVICE_AUTH_AUTHENTICATOR_H_
#define SPARSEAGG_SERVICE_AUTH_AUTHENTICATOR_H_

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "service/auth/caller.h"
#include "service/auth/credential_table.h"
#include "service/auth/jwt.h"
#include "service/auth/public_key.h"
#include "service/auth/watched_file.h"

namespace sparseagg {

// The credentials of a call. The names are those of a certificate that TLS has verified, written as
// in the credentials file: "dns:phone-1.example".
struct PresentedCredentials {
  std::vector<std::string_view> authorization;  // all headers of that name
  std::vector<std::string> certificate_names;
};

struct AuthenticatorOptions {
  std::string credentials_file;  // empty: no tokens or certificates are known
  std::string jwt_keys_file;     // empty: no JSON Web Tokens are accepted
  JwtRules jwt_rules;
  std::function<std::chrono::system_clock::time_point()> now = [] {
    return std::chrono::system_clock::now();
  };
  // Called after a file has changed: OK if it is now in use, otherwise what is wrong with it.
  std::function<void(const std::string& file, const absl::Status& status)> on_reload =
      [](const std::string&, const absl::Status&) {};
};

// Thread-safe.
class Authenticator {
 public:
  // Reads the files. NOT_FOUND (CREDENTIALS_UNREADABLE), INVALID_ARGUMENT (CREDENTIALS_INVALID).
  static absl::StatusOr<std::unique_ptr<Authenticator>> Open(AuthenticatorOptions options);

  // If there is a token, the certificate is not used. UNAUTHENTICATED: CREDENTIALS_MISSING,
  // TOKEN_INVALID, TOKEN_EXPIRED, CERTIFICATE_UNKNOWN.
  absl::StatusOr<Caller> Authenticate(const PresentedCredentials& presented);

  // The limits of the tenant in the credentials file.
  CredentialTable::LimitsByName LimitsOf(std::string_view tenant);

  static constexpr std::chrono::seconds kReloadInterval{1};

 private:
  // The content in use.
  struct Credentials {
    std::shared_ptr<const CredentialTable> table = std::make_shared<const CredentialTable>();
    std::shared_ptr<const std::vector<PublicKey>> keys =
        std::make_shared<const std::vector<PublicKey>>();
  };

  explicit Authenticator(AuthenticatorOptions options);
  Credentials CurrentCredentials();
  // Reads the files that have changed, if kReloadInterval is over.
  void ReloadIfDue();
  // Returns whether the file has changed; on an error the content in use stays.
  absl::StatusOr<bool> ReadTable();
  absl::StatusOr<bool> ReadKeys();
  absl::StatusOr<Caller> FromToken(std::string_view token, const Credentials& credentials) const;
  absl::StatusOr<Caller> FromCertificate(std::span<const std::string> names,
                                         const Credentials& credentials) const;

  const AuthenticatorOptions options_;
  std::mutex reload_mutex_;  // guards what follows except mutex_ and credentials_
  WatchedFile credentials_file_;
  WatchedFile jwt_keys_file_;
  std::chrono::system_clock::time_point next_reload_;
  absl::Status credentials_status_;  // as reported last
  absl::Status jwt_keys_status_;
  std::mutex mutex_;  // guards credentials_; held for a moment only
  Credentials credentials_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUTH_AUTHENTICATOR_H_
