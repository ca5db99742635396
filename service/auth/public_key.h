// Public keys that verify tokens: Ed25519, RSA of 2048 bits or more, and P-256. The type of the key
// decides the algorithm; a token that states another one is refused.
#ifndef SPARSEAGG_SERVICE_AUTH_PUBLIC_KEY_H_
#define SPARSEAGG_SERVICE_AUTH_PUBLIC_KEY_H_

#include <openssl/evp.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace sparseagg {

// Immutable, thread-safe.
class PublicKey {
 public:
  // REQUIRES: an Ed25519, RSA or P-256 key; see ReadPublicKeys().
  static absl::StatusOr<PublicKey> Make(EVP_PKEY* key, std::string id);  // takes ownership of `key`

  const std::string& id() const { return id_; }  // "kid"; may be empty
  // "EdDSA", "RS256" or "ES256".
  std::string_view algorithm() const { return algorithm_; }

  // `signature` as in a JWS (RFC 7515, 7518, 8037).
  bool Verify(std::string_view message, std::string_view signature) const;

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  };
  PublicKey(std::shared_ptr<EVP_PKEY> key, std::string id, std::string_view algorithm)
      : key_(std::move(key)), id_(std::move(id)), algorithm_(algorithm) {}

  std::shared_ptr<EVP_PKEY> key_;
  std::string id_;
  std::string_view algorithm_;
};

// Reads a JSON Web Key Set (RFC 7517), or one key as PEM ("BEGIN PUBLIC KEY"). Keys of a set that
// are not for signatures, or of another type, are skipped, as that RFC requires. INVALID_ARGUMENT
// (CREDENTIALS_INVALID): another format, an invalid key, a repeated key id, or no usable key.
absl::StatusOr<std::vector<PublicKey>> ReadPublicKeys(std::string_view text);

// Decodes base64url without padding, the encoding of JSON Web Tokens; returns false for anything
// else.
bool DecodeBase64Url(std::string_view text, std::string& bytes);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUTH_PUBLIC_KEY_H_
