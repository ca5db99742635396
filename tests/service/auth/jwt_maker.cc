#include "tests/service/auth/jwt_maker.h"

#include <gtest/gtest.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include "absl/strings/escaping.h"

namespace sparseagg::testing {
namespace {

EVP_PKEY* MakeKey(const std::string& kind) {
  if (kind == "EdDSA") return EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  if (kind == "RS256") return EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", size_t{2048});
  if (kind == "RS256-1024") return EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", size_t{1024});
  if (kind == "ES384") return EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-384");
  return EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256");
}

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string Number(const EVP_PKEY* key, const char* name, int bytes = 0) {
  BIGNUM* number = nullptr;
  EXPECT_EQ(EVP_PKEY_get_bn_param(key, name, &number), 1) << name;
  std::string text(bytes == 0 ? BN_num_bytes(number) : bytes, '\0');
  BN_bn2binpad(number, reinterpret_cast<unsigned char*>(text.data()),
               static_cast<int>(text.size()));
  BN_free(number);
  return Base64Url(text);
}

// Converts DER to r and s of 32 bytes each.
std::string RawEcdsa(const std::string& der) {
  const unsigned char* next = Bytes(der);
  ECDSA_SIG* pair = d2i_ECDSA_SIG(nullptr, &next, static_cast<long>(der.size()));
  std::string raw(64, '\0');
  auto* out = reinterpret_cast<unsigned char*>(raw.data());
  BN_bn2binpad(ECDSA_SIG_get0_r(pair), out, 32);
  BN_bn2binpad(ECDSA_SIG_get0_s(pair), out + 32, 32);
  ECDSA_SIG_free(pair);
  return raw;
}

}  // namespace

std::string Base64Url(std::string_view bytes) {
  return absl::WebSafeBase64Escape({bytes.data(), bytes.size()});
}

SigningKey::SigningKey(const std::string& kind, std::string id)
    : algorithm_(kind.substr(0, 5)), id_(std::move(id)), key_(MakeKey(kind), EVP_PKEY_free) {
  EXPECT_NE(key_, nullptr) << kind;
}

std::string SigningKey::Sign(std::string_view message) const {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  const EVP_MD* digest = algorithm_ == "EdDSA" ? nullptr : EVP_sha256();
  EXPECT_EQ(EVP_DigestSignInit(context, nullptr, digest, nullptr, key_.get()), 1);
  std::string signature(1024, '\0');
  size_t bytes = signature.size();
  EXPECT_EQ(EVP_DigestSign(context, reinterpret_cast<unsigned char*>(signature.data()), &bytes,
                           Bytes(message), message.size()),
            1);
  EVP_MD_CTX_free(context);
  signature.resize(bytes);
  return algorithm_ == "ES256" ? RawEcdsa(signature) : signature;
}

nlohmann::json SigningKey::PublicJwk() const {
  nlohmann::json jwk = {{"kid", id_}, {"use", "sig"}, {"alg", algorithm_}};
  const EVP_PKEY* key = key_.get();
  if (algorithm_ == "EdDSA") {
    std::string x(32, '\0');
    size_t bytes = x.size();
    EXPECT_EQ(EVP_PKEY_get_raw_public_key(key, reinterpret_cast<unsigned char*>(x.data()), &bytes),
              1);
    jwk.update({{"kty", "OKP"}, {"crv", "Ed25519"}, {"x", Base64Url(x)}});
  } else if (algorithm_ == "RS256") {
    jwk.update({{"kty", "RSA"},
                {"n", Number(key, OSSL_PKEY_PARAM_RSA_N)},
                {"e", Number(key, OSSL_PKEY_PARAM_RSA_E)}});
  } else {
    jwk.update({{"kty", "EC"},
                {"crv", algorithm_ == "ES384" ? "P-384" : "P-256"},
                {"x", Number(key, OSSL_PKEY_PARAM_EC_PUB_X, 32)},
                {"y", Number(key, OSSL_PKEY_PARAM_EC_PUB_Y, 32)}});
  }
  return jwk;
}

std::string SigningKey::PublicPem() const {
  BIO* file = BIO_new(BIO_s_mem());
  EXPECT_EQ(PEM_write_bio_PUBKEY(file, key_.get()), 1);
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(file, &text);
  std::string pem(text, static_cast<size_t>(bytes));
  BIO_free(file);
  return pem;
}

std::string KeySet(const std::vector<const SigningKey*>& keys) {
  nlohmann::json set = {{"keys", nlohmann::json::array()}};
  for (const SigningKey* key : keys) set["keys"].push_back(key->PublicJwk());
  return set.dump();
}

std::string Jwt(const nlohmann::json& header, const nlohmann::json& claims, const SigningKey& key) {
  const std::string text = Base64Url(header.dump()) + "." + Base64Url(claims.dump());
  return text + "." + Base64Url(key.Sign(text));
}

std::string JwtSignedWithHmac(const nlohmann::json& header, const nlohmann::json& claims,
                              std::string_view secret) {
  const std::string text = Base64Url(header.dump()) + "." + Base64Url(claims.dump());
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), Bytes(text), text.size(), mac,
       &bytes);
  return text + "." + Base64Url({reinterpret_cast<char*>(mac), bytes});
}

}  // namespace sparseagg::testing
