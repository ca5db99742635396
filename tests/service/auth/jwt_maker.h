// A small identity provider: makes keys, key sets, and valid and forged tokens.
#ifndef SPARSEAGG_TESTS_SERVICE_AUTH_JWT_MAKER_H_
#define SPARSEAGG_TESTS_SERVICE_AUTH_JWT_MAKER_H_

#include <openssl/evp.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace sparseagg::testing {

std::string Base64Url(std::string_view bytes);

// A private key and its description in a key set.
class SigningKey {
 public:
  // "EdDSA", "RS256", "ES256"; "RS256-1024" and "ES384" make keys that are refused.
  SigningKey(const std::string& kind, std::string id);

  const std::string& id() const { return id_; }
  std::string Sign(std::string_view message) const;
  nlohmann::json PublicJwk() const;
  std::string PublicPem() const;

 private:
  std::string algorithm_;
  std::string id_;
  std::shared_ptr<EVP_PKEY> key_;
};

std::string KeySet(const std::vector<const SigningKey*>& keys);

// header.claims.signature
std::string Jwt(const nlohmann::json& header, const nlohmann::json& claims, const SigningKey& key);
std::string JwtSignedWithHmac(const nlohmann::json& header, const nlohmann::json& claims,
                              std::string_view secret);

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SERVICE_AUTH_JWT_MAKER_H_
