// JSON Web Tokens (RFC 7519) as credentials: signed by the federation's own identity provider with
// EdDSA, RS256 or ES256. Every other algorithm is refused, among them "none" and the symmetric
// ones, and a key inside a token is never used.
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
  std::string audience;  // "aud" must be or contain this
  std::string tenant_claim = "tenant";
  std::string principal_claim = "sub";
  std::string roles_claim = "roles";  // a list, or one string with spaces between the roles
};

// The tolerance for clocks that differ between machines.
inline constexpr std::chrono::seconds kJwtLeeway{30};
inline constexpr size_t kJwtBytesMax = 8192;

// Whether `token` has the form of a JSON Web Token: three parts with dots between them.
bool LooksLikeJwt(std::string_view token);

// Verifies the token and returns the caller that its claims name. UNAUTHENTICATED: TOKEN_EXPIRED if
// it has only expired, TOKEN_INVALID, which names the first check that failed, for everything else.
// A token that names its key ("kid") is verified with that key; one that does not is accepted only
// if there is a single key.
absl::StatusOr<Caller> VerifyJwt(std::string_view token, std::span<const PublicKey> keys,
                                 const JwtRules& rules, std::chrono::system_clock::time_point now);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUTH_JWT_H_
