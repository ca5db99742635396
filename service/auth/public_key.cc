#include "service/auth/public_key.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

constexpr int kRsaBitsMin = 2048;
constexpr size_t kP256Bytes = 32;

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
struct FreeSignature {
  void operator()(ECDSA_SIG* signature) const { ECDSA_SIG_free(signature); }
};

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// Converts a signature from a JWS, two numbers r and s of 32 bytes, to the DER that OpenSSL reads.
// Empty on any error.
std::string EcdsaDer(std::string_view signature) {
  if (signature.size() != 2 * kP256Bytes) return "";
  const std::unique_ptr<ECDSA_SIG, FreeSignature> pair(ECDSA_SIG_new());
  BIGNUM* r = BN_bin2bn(Bytes(signature), kP256Bytes, nullptr);
  BIGNUM* s = BN_bin2bn(Bytes(signature) + kP256Bytes, kP256Bytes, nullptr);
  if (pair == nullptr || ECDSA_SIG_set0(pair.get(), r, s) != 1) {
    BN_free(r);
    BN_free(s);
    return "";
  }
  unsigned char* der = nullptr;
  const int bytes = i2d_ECDSA_SIG(pair.get(), &der);
  std::string text = bytes > 0 ? std::string(reinterpret_cast<char*>(der), bytes) : "";
  OPENSSL_free(der);
  return text;
}

bool IsP256(const EVP_PKEY* key) {
  char group[32] = {};
  return EVP_PKEY_get_group_name(key, group, sizeof(group), nullptr) == 1 &&
         std::string_view(group) == "prime256v1";
}

std::string_view AlgorithmOf(const EVP_PKEY* key) {
  switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_ED25519:
      return "EdDSA";
    case EVP_PKEY_RSA:
      return EVP_PKEY_get_bits(key) >= kRsaBitsMin ? "RS256" : "";
    case EVP_PKEY_EC:
      return IsP256(key) ? "ES256" : "";
    default:
      return "";
  }
}

}  // namespace

absl::StatusOr<PublicKey> PublicKey::Make(EVP_PKEY* key, std::string id) {
  const std::shared_ptr<EVP_PKEY> owned(key, Free());
  const std::string_view algorithm = AlgorithmOf(key);
  if (algorithm.empty()) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "CREDENTIALS_INVALID",
        absl::StrCat("key \"", absl::CEscape(id), "\" is not Ed25519, P-256 or RSA of ",
                     kRsaBitsMin, " bits or more"));
  }
  return PublicKey(owned, std::move(id), algorithm);
}

bool PublicKey::Verify(std::string_view message, std::string_view signature) const {
  std::string der;
  if (algorithm_ == "ES256") {
    der = EcdsaDer(signature);
    signature = der;
  }
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  const EVP_MD* digest = algorithm_ == "EdDSA" ? nullptr : EVP_sha256();
  const bool good =
      context != nullptr && !signature.empty() &&
      EVP_DigestVerifyInit(context.get(), nullptr, digest, nullptr, key_.get()) == 1 &&
      EVP_DigestVerify(context.get(), Bytes(signature), signature.size(), Bytes(message),
                       message.size()) == 1;
  // Clears OpenSSL's error queue, because gRPC's TLS on the same thread would read what is left
  // there.
  ERR_clear_error();
  return good;
}

bool DecodeBase64Url(std::string_view text, std::string& bytes) {
  const bool clean = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_';
  });
  return clean && absl::WebSafeBase64Unescape({text.data(), text.size()}, &bytes);
}

}  // namespace sparseagg
