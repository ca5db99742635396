#include "service/auth/jwt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/service/auth/jwt_maker.h"

namespace sparseagg {
namespace {

using nlohmann::json;
using testing::Base64Url;
using ::testing::HasSubstr;
using testing::Jwt;
using testing::KeySet;
using testing::SigningKey;

constexpr int64_t kNow = 1'800'000'000;

class JwtTest : public ::testing::Test {
 protected:
  absl::StatusOr<Caller> Verify(const std::string& token, const std::string& key_file) {
    auto keys = ReadPublicKeys(key_file);
    if (!keys.ok()) return keys.status();
    return VerifyJwt(token, *keys, rules_,
                     std::chrono::system_clock::time_point(std::chrono::seconds(kNow)));
  }
  absl::StatusOr<Caller> Verify(const std::string& token) {
    return VerifyJwt(token, keys_, rules_,
                     std::chrono::system_clock::time_point(std::chrono::seconds(kNow)));
  }
  json Header(const std::string& algorithm, const std::string& key) {
    return {{"typ", "JWT"}, {"alg", algorithm}, {"kid", key}};
  }
  std::string Token(const json& claims) { return Jwt(Header("EdDSA", "ed"), claims, kEd); }
  // Returns the valid claims with one of them changed; null removes it.
  json With(const std::string& name, const json& value) {
    json claims = claims_;
    if (value.is_null()) {
      claims.erase(name);
    } else {
      claims[name] = value;
    }
    return claims;
  }
  void ExpectRefused(const std::string& token, const std::string& why,
                     const std::string& reason = "TOKEN_INVALID") {
    const absl::Status status = Verify(token).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
    EXPECT_EQ(ErrorReason(status), reason);
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }

  // Made once: large primes take a while to find.
  inline static const SigningKey kEd{"EdDSA", "ed"};
  inline static const SigningKey kRsa{"RS256", "rsa"};
  inline static const SigningKey kEc{"ES256", "ec"};
  const std::vector<PublicKey> keys_ = ReadPublicKeys(KeySet({&kEd, &kRsa, &kEc})).value();
  JwtRules rules_{.issuer = "https://login.acme.example", .audience = "sparseagg"};
  json claims_ = {{"iss", "https://login.acme.example"},
                  {"aud", "sparseagg"},
                  {"sub", "phone-1"},
                  {"tenant", "acme"},
                  {"roles", {"contributor", "reader"}},
                  {"exp", kNow + 600},
                  {"nbf", kNow - 600},
                  {"iat", kNow - 600}};
};

TEST_F(JwtTest, TellsWhoCallsByEachKindOfKey) {
  for (const SigningKey* key : {&kEd, &kRsa, &kEc}) {
    const std::string algorithm = key->PublicJwk()["alg"];
    const std::string token = Jwt(Header(algorithm, key->id()), claims_, *key);
    for (const std::string& file : {KeySet({&kEd, &kRsa, &kEc}), key->PublicPem()}) {
      const auto caller = Verify(token, file);
      ASSERT_TRUE(caller.ok()) << algorithm << ": " << caller.status();
      EXPECT_EQ(caller->tenant, "acme");
      EXPECT_EQ(caller->principal, "phone-1");
      EXPECT_EQ(caller->roles, (RoleSet{Role::kContributor, Role::kReader}));
      EXPECT_EQ(std::chrono::system_clock::to_time_t(caller->expires), kNow + 630);
    }
  }
}

TEST_F(JwtTest, TakesNoTokenWithoutASignature) {
  for (const char* none : {"none", "None", "NONE", "nOnE"}) {
    const std::string text =
        Base64Url(Header(none, "ed").dump()) + "." + Base64Url(claims_.dump()) + ".";
    ExpectRefused(text, "algorithm");
    ExpectRefused(text + Base64Url("x"), "algorithm");
  }
  const std::string good = Token(claims_);
  ExpectRefused(good.substr(0, good.rfind('.') + 1), "signature");
}

TEST_F(JwtTest, TakesNoPublicKeyForASecret) {
  for (const SigningKey* key : {&kEd, &kRsa, &kEc}) {
    for (const char* algorithm : {"HS256", "HS384", "RS256", "EdDSA"}) {
      for (const std::string& secret : {key->PublicPem(), key->PublicJwk().dump()}) {
        const std::string token =
            testing::JwtSignedWithHmac(Header(algorithm, key->id()), claims_, secret);
        EXPECT_EQ(ErrorReason(Verify(token).status()), "TOKEN_INVALID");
        EXPECT_EQ(ErrorReason(Verify(token, key->PublicPem()).status()), "TOKEN_INVALID");
      }
    }
  }
}

TEST_F(JwtTest, AnAlgorithmMustBeThatOfTheKey) {
  ExpectRefused(Jwt(Header("RS256", "ed"), claims_, kEd), "algorithm");
  ExpectRefused(Jwt(Header("PS256", "rsa"), claims_, kRsa), "algorithm");
  ExpectRefused(Jwt(Header("RS512", "rsa"), claims_, kRsa), "algorithm");
  json header = Header("EdDSA", "ed");
  header.erase("alg");
  ExpectRefused(Jwt(header, claims_, kEd), "algorithm");
}

TEST_F(JwtTest, OneFlippedBitAnywhereIsRefused) {
  const std::string good = Token(claims_);
  ASSERT_TRUE(Verify(good).ok());
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int bit : {0, 1, 4}) {
      std::string flipped = good;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      const absl::Status status = Verify(flipped).status();
      // The last character of the signature has unused bits.
      if (i + 1 == good.size() && status.ok()) continue;
      EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << i << ", bit " << bit;
    }
  }
}

TEST_F(JwtTest, TakesOnlyKeysOfTheServer) {
  const SigningKey stranger("EdDSA", "ed");
  ExpectRefused(Jwt(Header("EdDSA", "ed"), claims_, stranger), "signature");
  ExpectRefused(Jwt(Header("EdDSA", "other"), claims_, kEd), "kid");
  ExpectRefused(Jwt({{"alg", "EdDSA"}}, claims_, kEd), "several");
  // A key in the token, or the address of one, is ignored.
  json header = Header("EdDSA", "ed");
  header["jwk"] = stranger.PublicJwk();
  header["jku"] = "https://evil.example/keys";
  ExpectRefused(Jwt(header, claims_, stranger), "signature");
  header = Header("EdDSA", "ed");
  header["crit"] = {"b64"};
  ExpectRefused(Jwt(header, claims_, kEd), "crit");
}

TEST_F(JwtTest, TimesHaveALittleLeeway) {
  EXPECT_TRUE(Verify(Token(With("exp", kNow - 29))).ok());
  ExpectRefused(Token(With("exp", kNow - 30)), "expired", "TOKEN_EXPIRED");
  EXPECT_TRUE(Verify(Token(With("nbf", kNow + 30))).ok());
  ExpectRefused(Token(With("nbf", kNow + 31)), "nbf");
  EXPECT_TRUE(Verify(Token(With("nbf", nullptr))).ok());
  for (const json& no_date : {json(nullptr), json("soon"), json(true), json(-5)}) {
    ExpectRefused(Token(With("exp", no_date)), "exp");
  }
  ExpectRefused(Token(With("nbf", "now")), "nbf");
  EXPECT_TRUE(Verify(Token(With("exp", 1e300))).ok()) << "a date that no clock reaches";
}

TEST_F(JwtTest, IssuerAndAudienceMustBeThoseOfTheServer) {
  ExpectRefused(Token(With("iss", "https://login.evil.example")), "issuer");
  ExpectRefused(Token(With("iss", nullptr)), "issuer");
  ExpectRefused(Token(With("aud", "another-service")), "audience");
  ExpectRefused(Token(With("aud", json::array())), "audience");
  ExpectRefused(Token(With("aud", nullptr)), "audience");
  ExpectRefused(Token(With("aud", {{"sparseagg", 1}})), "audience");
  EXPECT_TRUE(Verify(Token(With("aud", {"another-service", "sparseagg"}))).ok());
}

TEST_F(JwtTest, TenantPrincipalAndRolesComeFromItsClaims) {
  for (const char* claim : {"tenant", "sub", "roles"}) {
    ExpectRefused(Token(With(claim, nullptr)), claim);
    ExpectRefused(Token(With(claim, 5)), claim);
  }
  ExpectRefused(Token(With("tenant", "../acme")), "tenant");
  ExpectRefused(Token(With("sub", "")), "principal");
  ExpectRefused(Token(With("roles", {"admin", "root"})),
                "\"roles\" has none of operator, owner, contributor, reader and worker");
  EXPECT_EQ(Verify(Token(With("roles", "reader openid owner")))->roles,
            (RoleSet{Role::kReader, Role::kOwner}));
  rules_.tenant_claim = "org";
  json claims = With("org", "umbrella");
  EXPECT_EQ(Verify(Token(claims))->tenant, "umbrella");
}

TEST_F(JwtTest, GarbageIsRefused) {
  for (const std::string& garbage :
       {std::string("."), std::string(".."), std::string("a.b.c"), std::string("...."),
        Base64Url("[]") + "." + Base64Url("{}") + ".", Base64Url("{}") + "." + Base64Url("1") + ".",
        Token(claims_) + "=", Token(claims_) + "\n", " " + Token(claims_), std::string(20000, '.'),
        std::string(9000, 'a') + ".b.c",
        Base64Url(std::string(6000, '[')) + "." + Base64Url("{}") + ".x"}) {
    ExpectRefused(garbage, "refused");
  }
}

TEST_F(JwtTest, KeyFilesThatAreNoGoodAreRefused) {
  const auto refused = [](const std::string& file) {
    return ErrorReason(ReadPublicKeys(file).status()) == "CREDENTIALS_INVALID";
  };
  EXPECT_TRUE(refused(""));
  EXPECT_TRUE(refused("{}"));
  EXPECT_TRUE(refused(R"({"keys": []})"));
  EXPECT_TRUE(refused("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"));
  EXPECT_TRUE(refused(KeySet({&kEd, &kEd}))) << "one id twice";
  const SigningKey small("RS256-1024", "small");
  EXPECT_TRUE(refused(KeySet({&small})));
  EXPECT_TRUE(refused(small.PublicPem()));
  EXPECT_TRUE(refused(SigningKey("ES384", "other").PublicPem()));
  json broken = kEc.PublicJwk();
  broken["y"] = Base64Url(std::string(32, '\1'));
  EXPECT_TRUE(refused(json{{"keys", {broken}}}.dump())) << "a point off the curve";
  broken["y"] = "?";
  EXPECT_TRUE(refused(json{{"keys", {broken}}}.dump()));
}

TEST_F(JwtTest, SkipsKeysOfASetThatAreForSomethingElse) {
  json encryption = kRsa.PublicJwk();
  encryption["use"] = "enc";
  encryption["kid"] = "enc";
  const json secret = {{"kty", "oct"}, {"k", "c2VjcmV0"}, {"kid", "oct"}};
  const json pss = {{"kty", "RSA"}, {"alg", "PS256"}, {"n", "AQAB"}, {"e", "AQAB"}};
  const json set = {{"keys", {encryption, secret, pss, kEd.PublicJwk()}}};
  const auto keys = ReadPublicKeys(set.dump());
  ASSERT_TRUE(keys.ok()) << keys.status();
  ASSERT_EQ(keys->size(), 1u);
  EXPECT_EQ(keys->front().id(), "ed");
}

}  // namespace
}  // namespace sparseagg
