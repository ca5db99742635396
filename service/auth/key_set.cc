// ReadPublicKeys(): the keys of a JSON Web Key Set or a PEM file.
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/auth/public_key.h"

namespace sparseagg {
namespace {

using Json = nlohmann::json;

template <typename Type, void (*kFree)(Type*)>
struct Freer {
  void operator()(Type* pointer) const { kFree(pointer); }
};
template <typename Type, void (*kFree)(Type*)>
using Owned = std::unique_ptr<Type, Freer<Type, kFree>>;
using OwnedNumber = Owned<BIGNUM, BN_free>;

template <typename... Words>
absl::Status Invalid(const Words&... words) {
  ERR_clear_error();
  return MakeError(absl::StatusCode::kInvalidArgument, "CREDENTIALS_INVALID",
                   absl::StrCat(words...));
}

const unsigned char* Bytes(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string Member(const Json& key, const char* name) {
  const auto found = key.find(name);
  return found != key.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// A member in base64url, decoded; empty if it is missing or malformed.
std::string Decoded(const Json& key, const char* name) {
  std::string bytes;
  return DecodeBase64Url(Member(key, name), bytes) ? bytes : std::string();
}

EVP_PKEY* FromParameters(const char* type, OSSL_PARAM_BLD* builder) {
  const Owned<OSSL_PARAM, OSSL_PARAM_free> parameters(OSSL_PARAM_BLD_to_param(builder));
  const Owned<EVP_PKEY_CTX, EVP_PKEY_CTX_free> context(
      EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  const bool made =
      parameters != nullptr && context != nullptr && EVP_PKEY_fromdata_init(context.get()) == 1 &&
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.get()) == 1;
  return made ? key : nullptr;
}

EVP_PKEY* RsaKey(const Json& key) {
  const std::string n = Decoded(key, "n");
  const std::string e = Decoded(key, "e");
  const OwnedNumber modulus(BN_bin2bn(Bytes(n), static_cast<int>(n.size()), nullptr));
  const OwnedNumber exponent(BN_bin2bn(Bytes(e), static_cast<int>(e.size()), nullptr));
  const Owned<OSSL_PARAM_BLD, OSSL_PARAM_BLD_free> builder(OSSL_PARAM_BLD_new());
  if (n.empty() || e.empty() || builder == nullptr ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, modulus.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, exponent.get()) != 1) {
    return nullptr;
  }
  return FromParameters("RSA", builder.get());
}

EVP_PKEY* P256Key(const Json& key) {
  constexpr size_t kCoordinateBytes = 32;
  const std::string x = Decoded(key, "x");
  const std::string y = Decoded(key, "y");
  if (x.size() != kCoordinateBytes || y.size() != kCoordinateBytes) return nullptr;
  const std::string point = absl::StrCat("\x04", x, y);  // uncompressed
  const Owned<OSSL_PARAM_BLD, OSSL_PARAM_BLD_free> builder(OSSL_PARAM_BLD_new());
  if (builder == nullptr ||
      OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) !=
          1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                       point.size()) != 1) {
    return nullptr;
  }
  return FromParameters("EC", builder.get());
}

EVP_PKEY* Ed25519Key(const Json& key) {
  const std::string x = Decoded(key, "x");
  return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Bytes(x), x.size());
}

// Returns the function that makes a key of this type and algorithm; nullopt for keys that are
// skipped.
using MakeKey = EVP_PKEY* (*)(const Json&);
std::optional<MakeKey> MakerOf(const Json& key) {
  struct Kind {
    std::string_view type, curve, algorithm;
    MakeKey make;
  };
  static constexpr Kind kKinds[] = {{"RSA", "", "RS256", RsaKey},
                                    {"EC", "P-256", "ES256", P256Key},
                                    {"OKP", "Ed25519", "EdDSA", Ed25519Key}};
  const std::string use = Member(key, "use");
  const std::string algorithm = Member(key, "alg");
  if (!use.empty() && use != "sig") return std::nullopt;
  for (const Kind& kind : kKinds) {
    const bool same = Member(key, "kty") == kind.type && Member(key, "crv") == kind.curve;
    if (same && (algorithm.empty() || algorithm == kind.algorithm)) return kind.make;
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<PublicKey>> ReadKeySet(std::string_view text) {
  const Json set = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!set.is_object() || !set.contains("keys") || !set["keys"].is_array()) {
    return Invalid("it is neither a JSON Web Key Set nor a PEM public key");
  }
  std::vector<PublicKey> keys;
  std::set<std::string> ids;
  for (const Json& member : set["keys"]) {
    const auto make = member.is_object() ? MakerOf(member) : std::nullopt;
    if (!make) continue;
    const std::string id = Member(member, "kid");
    EVP_PKEY* key = (*make)(member);
    if (key == nullptr) return Invalid("key ", keys.size() + 1, " of the set is invalid");
    SPARSEAGG_ASSIGN_OR_RETURN(PublicKey made, PublicKey::Make(key, id));
    if (!ids.insert(id).second) return Invalid("two keys of the set have the same \"kid\"");
    keys.push_back(std::move(made));
  }
  if (keys.empty()) return Invalid("the set has no key for EdDSA, RS256 or ES256");
  return keys;
}

}  // namespace

absl::StatusOr<std::vector<PublicKey>> ReadPublicKeys(std::string_view text) {
  if (text.find("-----BEGIN") == std::string_view::npos) return ReadKeySet(text);
  const Owned<BIO, BIO_free_all> file(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  EVP_PKEY* key = PEM_read_bio_PUBKEY(file.get(), nullptr, nullptr, nullptr);
  if (key == nullptr) return Invalid("its PEM text is not a public key (BEGIN PUBLIC KEY)");
  SPARSEAGG_ASSIGN_OR_RETURN(PublicKey made, PublicKey::Make(key, ""));
  return std::vector<PublicKey>{std::move(made)};
}

}  // namespace sparseagg
