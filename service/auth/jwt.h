// JSON Web Tokens (RFC 7519) as credentials: signed by the federation's own identity provider with
// EdDSA, RS256 or ES256. No other algorithm, "none" and the symmetric ones least of all, and no key
// that a token brings along.
#ifndef SPARSEAGG_SERVICE_AUTH_JWT_H_
#define SPARSEAGG_SERVICE_AUTH_JWT_H_

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "service/auth/caller.h"
#include "service/auth/public_key.h"

namespace sparseagg {

struct JwtRules {
  std::string issuer;    // "iss" must be this
  std::string audience;  // "aud" must be or have this
  std::string tenant_claim = "tenant";
  std::string principal_claim = "sub";
  std::string roles_claim = "roles";  // a list, or one text with spaces between the roles
};

// Clocks of different machines differ.
inline constexpr std::chrono::seconds kJwtLeeway{30};
inline constexpr size_t kJwtBytesMax = 8192;

// Whether it has the form of one: three parts with dots between them.
bool LooksLikeJwt(std::string_view token);

// Who the token says its bearer is. UNAUTHENTICATED: TOKEN_EXPIRED when only the time is over,
// TOKEN_INVALID, with the first check that failed, for everything else. A token that names its key
// ("kid") is checked with that one; one that does not, only when there is no choice.
absl::StatusOr<Caller> VerifyJwt(std::string_view token, std::span<const PublicKey> keys,
                                 const JwtRules& rules, std::chrono::system_clock::time_point now);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUTH_JWT_H_
