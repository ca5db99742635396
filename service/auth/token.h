// Bearer tokens: 256 random bits. The server stores only their SHA-256, so that the credentials
// file does not reveal a token.
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
// Compares in constant time.
bool Equal(const TokenDigest& a, const TokenDigest& b);

// 64 hexadecimal digits.
std::string ToHex(const TokenDigest& digest);
std::optional<TokenDigest> FromHex(std::string_view hex);

// The token in the value of an `authorization` header, "Bearer <token>"; nullopt for any other
// value.
std::optional<std::string_view> BearerToken(std::string_view authorization);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUTH_TOKEN_H_
