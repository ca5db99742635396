#include "service/auth/jwt.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace sparseagg {
namespace {

using Json = nlohmann::json;
using Seconds = std::chrono::duration<double>;

absl::Status Refused(std::string_view why) {
  return MakeError(absl::StatusCode::kUnauthenticated, "TOKEN_INVALID",
                   absl::StrCat("the token is refused: ", std::string(why)));
}

struct Parts {
  std::string_view signed_text;  // header.payload
  Json header;
  Json claims;
  std::string signature;
};

// The claims must not be used before the signature is verified.
absl::StatusOr<Parts> Split(std::string_view token) {
  if (token.size() > kJwtBytesMax) return Refused("it is longer than 8 KiB");
  const size_t first = token.find('.');
  const size_t second = token.find('.', first + 1);
  Parts parts;
  parts.signed_text = token.substr(0, second);
  std::string header;
  std::string claims;
  const bool decoded = DecodeBase64Url(token.substr(0, first), header) &&
                       DecodeBase64Url(token.substr(first + 1, second - first - 1), claims) &&
                       DecodeBase64Url(token.substr(second + 1), parts.signature);
  if (!decoded) return Refused("its three parts are not all base64url");
  parts.header = Json::parse(header, nullptr, /*allow_exceptions=*/false);
  parts.claims = Json::parse(claims, nullptr, /*allow_exceptions=*/false);
  if (!parts.header.is_object() || !parts.claims.is_object()) {
    return Refused("its parts are not JSON objects");
  }
  return parts;
}

std::optional<std::string> Text(const Json& object, const std::string& name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

absl::StatusOr<const PublicKey*> KeyOf(const Json& header, std::span<const PublicKey> keys) {
  const auto kid = Text(header, "kid");
  if (!kid) {
    if (keys.size() == 1 && !header.contains("kid")) return &keys[0];
    return Refused("it does not name its key (kid), and there are several");
  }
  for (const PublicKey& key : keys) {
    if (key.id() == *kid) return &key;
  }
  // A single key without an id, from a PEM file, matches any key id.
  if (keys.size() == 1 && keys[0].id().empty()) return &keys[0];
  return Refused("its key (kid) is not one of the server's");
}

absl::Status CheckSignature(const Parts& parts, std::span<const PublicKey> keys) {
  if (parts.header.contains("crit")) return Refused("it has critical extensions (crit)");
  SPARSEAGG_ASSIGN_OR_RETURN(const PublicKey* key, KeyOf(parts.header, keys));
  if (Text(parts.header, "alg") != std::string(key->algorithm())) {
    return Refused("its algorithm (alg) does not match its key");
  }
  if (!key->Verify(parts.signed_text, parts.signature)) return Refused("its signature is wrong");
  return absl::OkStatus();
}

bool HasAudience(const Json& claims, const std::string& audience) {
  const auto found = claims.find("aud");
  if (found == claims.end()) return false;
  if (!found->is_array()) return *found == Json(audience);
  return std::find(found->begin(), found->end(), Json(audience)) != found->end();
}

// A NumericDate; nullopt if it is missing or malformed.
std::optional<Seconds> Date(const Json& claims, const char* name) {
  constexpr double kLatest = 9e9;  // beyond the year 2200, and in the range of every clock
  const auto found = claims.find(name);
  if (found == claims.end() || !found->is_number()) return std::nullopt;
  const double seconds = found->get<double>();
  if (!std::isfinite(seconds) || seconds < 0) return std::nullopt;
  return Seconds(std::min(seconds, kLatest));
}

absl::Status CheckTimes(const Json& claims, Seconds now) {
  const auto expires = Date(claims, "exp");
  if (!expires) return Refused("it has no expiry time (exp)");
  if (claims.contains("nbf")) {
    const auto begins = Date(claims, "nbf");
    if (!begins || now + kJwtLeeway < *begins) return Refused("it is not valid yet (nbf)");
  }
  if (now < *expires + kJwtLeeway) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnauthenticated, "TOKEN_EXPIRED",
                   "the token has expired; get a new one");
}

absl::StatusOr<RoleSet> RolesOf(const Json& claims, const std::string& claim) {
  std::vector<std::string> names;
  const auto found = claims.find(claim);
  if (found != claims.end() && found->is_string()) {
    names = absl::StrSplit(found->get<std::string>(), ' ', absl::SkipEmpty());
  } else if (found != claims.end() && found->is_array()) {
    for (const Json& name : *found) {
      if (name.is_string()) names.push_back(name.get<std::string>());
    }
  }
  // Other role names are ignored, because issuers have roles for other services.
  RoleSet roles;
  for (const std::string& name : names) {
    if (const auto role = ParseRole(name)) roles.Add(*role);
  }
  if (roles.empty()) {
    return Refused(absl::StrCat("its claim \"", claim,
                                "\" has none of operator, owner, contributor, reader and worker"));
  }
  return roles;
}

absl::StatusOr<Caller> CallerOf(const Json& claims, const JwtRules& rules) {
  Caller caller;
  const auto tenant = Text(claims, rules.tenant_claim);
  const auto principal = Text(claims, rules.principal_claim);
  if (!tenant) return Refused(absl::StrCat("it has no claim \"", rules.tenant_claim, "\""));
  if (!principal) return Refused(absl::StrCat("it has no claim \"", rules.principal_claim, "\""));
  caller.tenant = *tenant;
  caller.principal = *principal;
  SPARSEAGG_ASSIGN_OR_RETURN(caller.roles, RolesOf(claims, rules.roles_claim));
  if (const absl::Status status = ValidateCaller(caller); !status.ok()) {
    return Refused(std::string(status.message()));
  }
  const Seconds end = *Date(claims, "exp") + kJwtLeeway;
  caller.expires = std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(end));
  return caller;
}

}  // namespace

bool LooksLikeJwt(std::string_view token) {
  return std::count(token.begin(), token.end(), '.') == 2;
}

absl::StatusOr<Caller> VerifyJwt(std::string_view token, std::span<const PublicKey> keys,
                                 const JwtRules& rules, std::chrono::system_clock::time_point now) {
  if (!LooksLikeJwt(token)) return Refused("it does not have three parts");
  SPARSEAGG_ASSIGN_OR_RETURN(const Parts parts, Split(token));
  SPARSEAGG_RETURN_IF_ERROR(CheckSignature(parts, keys));
  if (Text(parts.claims, "iss") != rules.issuer)
    return Refused("its issuer (iss) is not jwt-issuer");
  if (!HasAudience(parts.claims, rules.audience)) {
    return Refused("its audience (aud) does not include jwt-audience");
  }
  SPARSEAGG_RETURN_IF_ERROR(CheckTimes(parts.claims, now.time_since_epoch()));
  return CallerOf(parts.claims, rules);
}

}  // namespace sparseagg
