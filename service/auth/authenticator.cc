#include "service/auth/authenticator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "service/auth/token.h"

namespace sparseagg {
namespace {

absl::Status Unauthenticated(std::string_view reason, std::string_view message) {
  return MakeError(absl::StatusCode::kUnauthenticated, reason, message);
}

// Adds the file's name to an error in its content.
absl::Status In(const std::string& file, const absl::Status& status) {
  return MakeError(status.code(), ErrorReason(status),
                   absl::StrCat(file, ": ", std::string(status.message())));
}

}  // namespace

Authenticator::Authenticator(AuthenticatorOptions options)
    : options_(std::move(options)),
      credentials_file_(options_.credentials_file),
      jwt_keys_file_(options_.jwt_keys_file) {}

absl::StatusOr<std::unique_ptr<Authenticator>> Authenticator::Open(AuthenticatorOptions options) {
  std::unique_ptr<Authenticator> opened(new Authenticator(std::move(options)));
  SPARSEAGG_RETURN_IF_ERROR(opened->ReadTable().status());
  SPARSEAGG_RETURN_IF_ERROR(opened->ReadKeys().status());
  opened->next_reload_ = opened->options_.now() + kReloadInterval;
  return opened;
}

absl::StatusOr<bool> Authenticator::ReadTable() {
  if (options_.credentials_file.empty()) return false;
  SPARSEAGG_ASSIGN_OR_RETURN(const auto text, credentials_file_.ReadIfChanged());
  if (!text) return false;
  auto parsed = CredentialTable::Parse(*text);
  if (!parsed.ok()) return In(options_.credentials_file, parsed.status());
  auto table = std::make_shared<const CredentialTable>(*std::move(parsed));
  std::lock_guard lock(mutex_);
  credentials_.table.swap(table);
  return true;
}

absl::StatusOr<bool> Authenticator::ReadKeys() {
  if (options_.jwt_keys_file.empty()) return false;
  SPARSEAGG_ASSIGN_OR_RETURN(const auto text, jwt_keys_file_.ReadIfChanged());
  if (!text) return false;
  auto parsed = ReadPublicKeys(*text);
  if (!parsed.ok()) return In(options_.jwt_keys_file, parsed.status());
  auto keys = std::make_shared<const std::vector<PublicKey>>(*std::move(parsed));
  std::lock_guard lock(mutex_);
  credentials_.keys.swap(keys);
  return true;
}

void Authenticator::ReloadIfDue() {
  const auto now = options_.now();
  // The second condition keeps the checks going after the clock was set back.
  if (now < next_reload_ && next_reload_ - now <= kReloadInterval) return;
  next_reload_ = now + kReloadInterval;
  // Reports each change, and each error once.
  const auto tell = [this](const std::string& file, const absl::StatusOr<bool>& read,
                           absl::Status& told) {
    const bool news = read.ok() ? *read : read.status() != told;
    if (news || !read.ok()) told = read.status();
    if (news) options_.on_reload(file, told);
  };
  tell(options_.credentials_file, ReadTable(), credentials_status_);
  tell(options_.jwt_keys_file, ReadKeys(), jwt_keys_status_);
}

Authenticator::Credentials Authenticator::CurrentCredentials() {
  // One thread at a time checks the files; the others use the content at hand.
  if (const std::unique_lock reloading(reload_mutex_, std::try_to_lock); reloading) ReloadIfDue();
  std::lock_guard lock(mutex_);
  return credentials_;
}

absl::StatusOr<Caller> Authenticator::Authenticate(const PresentedCredentials& presented) {
  const Credentials credentials = CurrentCredentials();
  if (presented.authorization.size() > 1) {
    return Unauthenticated("TOKEN_INVALID", "there are several authorization headers; send one");
  }
  if (!presented.authorization.empty()) {
    const auto token = BearerToken(presented.authorization[0]);
    if (token) return FromToken(*token, credentials);
    return Unauthenticated("TOKEN_INVALID", "the authorization header is not \"Bearer <token>\"");
  }
  if (!presented.certificate_names.empty()) {
    return FromCertificate(presented.certificate_names, credentials);
  }
  return Unauthenticated("CREDENTIALS_MISSING",
                         "the server requires a bearer token or a client certificate");
}

absl::StatusOr<Caller> Authenticator::FromToken(std::string_view token,
                                                const Credentials& credentials) const {
  const auto now = options_.now();
  if (const Caller* caller = credentials.table->FindToken(token)) {
    if (now < caller->expires) return *caller;
    return Unauthenticated("TOKEN_EXPIRED", "the token has expired; get a new one");
  }
  if (!credentials.keys->empty() && LooksLikeJwt(token)) {
    return VerifyJwt(token, *credentials.keys, options_.jwt_rules, now);
  }
  return Unauthenticated("TOKEN_INVALID", "the token is not known");
}

absl::StatusOr<Caller> Authenticator::FromCertificate(std::span<const std::string> names,
                                                      const Credentials& credentials) const {
  const auto caller = credentials.table->FindCertificate(names);
  const bool valid = caller && options_.now() < caller->expires && ValidateCaller(*caller).ok();
  if (valid) return *caller;
  return Unauthenticated(
      "CERTIFICATE_UNKNOWN",
      absl::StrCat("the credentials file has no row for the client certificate of ",
                   absl::StrJoin(names, ", ")));
}

CredentialTable::LimitsByName Authenticator::LimitsOf(std::string_view tenant) {
  const Credentials credentials = CurrentCredentials();
  const auto found = credentials.table->tenants().find(tenant);
  return found == credentials.table->tenants().end() ? CredentialTable::LimitsByName()
                                                     : found->second;
}

}  // namespace sparseagg
