// Keys that sign tokens: Ed25519, RSA of 2048 bits or more, and P-256. What a key is decides how it
// signs; what a token says of its algorithm can only agree.
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
  static absl::StatusOr<PublicKey> Make(EVP_PKEY* key, std::string id);  // takes `key`

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

// A JSON Web Key Set (RFC 7517), or one key as PEM ("BEGIN PUBLIC KEY"). Keys of a set that are not
// for signatures, or of another kind, are skipped, as that RFC asks. INVALID_ARGUMENT
// (CREDENTIALS_INVALID): not such a text, a broken key, a key id twice, or no key left.
absl::StatusOr<std::vector<PublicKey>> ReadPublicKeys(std::string_view text);

// Base64url without padding, as JSON Web Tokens are written in; false for anything else.
bool DecodeBase64Url(std::string_view text, std::string& bytes);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_AUTH_PUBLIC_KEY_H_
