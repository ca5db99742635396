#include "service/auth/token.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"

namespace sparseagg {

std::string NewToken() {
  std::array<unsigned char, 32> bits;
  // Without randomness there can be no token.
  if (RAND_bytes(bits.data(), bits.size()) != 1) std::abort();
  const std::string text = absl::WebSafeBase64Escape(
      absl::string_view(reinterpret_cast<const char*>(bits.data()), bits.size()));
  return "sat_" + text;
}

TokenDigest DigestOf(std::string_view token) {
  TokenDigest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

bool Equal(const TokenDigest& a, const TokenDigest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string ToHex(const TokenDigest& digest) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

std::optional<TokenDigest> FromHex(std::string_view hex) {
  TokenDigest digest;
  if (hex.size() != 2 * digest.size()) return std::nullopt;
  if (!std::all_of(hex.begin(), hex.end(), absl::ascii_isxdigit)) return std::nullopt;
  const std::string bytes = absl::HexStringToBytes({hex.data(), hex.size()});
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

std::optional<std::string_view> BearerToken(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (!absl::StartsWithIgnoreCase({authorization.data(), authorization.size()},
                                  {kScheme.data(), kScheme.size()})) {
    return std::nullopt;
  }
  std::string_view token = authorization.substr(kScheme.size());
  while (token.starts_with(' ')) token.remove_prefix(1);
  if (token.empty()) return std::nullopt;
  return token;
}

}  // namespace sparseagg
