// Tokens that the server makes: 256 random bits, known to it by their SHA-256 alone, so that the
// file that lists them gives nobody a token.
#ifndef SPARSEAGG_SERVICE_AUTH_TOKEN_H_
#define SPARSEAGG_SERVICE_AUTH_TOKEN_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sparseagg {

// "sat_" and 43 characters of [A-Za-z0-9_-].
std::string NewToken();

using TokenDigest = std::array<uint8_t, 32>;
TokenDigest DigestOf(std::string_view token);
// In a time that depends on nothing in them.
bool Equal(const TokenDigest& a, const TokenDigest& b);

// 64 hexadecimal digits.
std::string ToHex(const TokenDigest& digest);
std::optional<TokenDigest> FromHex(std::string_view hex);

// The token of an `authorization` header, "Bearer <token>"; nothing when it is something else.
std::optional<std::string_view> BearerToken(std::string_view authorization);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUTH_TOKEN_H_
