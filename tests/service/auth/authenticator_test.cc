#include "service/auth/authenticator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/auth/token.h"
#include "service/engine/names.h"
#include "tests/service/auth/jwt_maker.h"
#include "tests/support/temporary_folder.h"

namespace sparseagg {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Jwt;
using testing::KeySet;
using testing::SigningKey;

std::string Row(const std::string& token, const std::string& principal,
                const std::string& more = "") {
  return absl::StrCat("{\"token_sha256\": \"", ToHex(DigestOf(token)), "\", \"principal\": \"",
                      principal, R"(", "tenant": "acme", "roles": ["owner"])", more, "}");
}

class AuthenticatorTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
  }
  void WriteCredentials(const std::string& rows) {
    Write("credentials", absl::StrCat("{\"credentials\": [", rows, "]}"));
  }
  absl::Status Open(bool with_jwt = false) {
    AuthenticatorOptions options;
    options.credentials_file = folder_.path() + "/credentials";
    if (with_jwt) options.jwt_keys_file = folder_.path() + "/keys";
    options.jwt_rules = {.issuer = "i", .audience = "a"};
    options.now = [this] { return now_; };
    options.on_reload = [this](const std::string& file, const absl::Status& status) {
      if (during_reload_) during_reload_();
      reloads_.push_back(std::filesystem::path(file).filename().string() + " " +
                         (status.ok() ? "OK" : ErrorReason(status)));
    };
    auto opened = Authenticator::Open(std::move(options));
    if (!opened.ok()) return opened.status();
    authenticator_ = *std::move(opened);
    return absl::OkStatus();
  }
  absl::StatusOr<Caller> With(const std::string& authorization) {
    return authenticator_->Authenticate({.authorization = {authorization}});
  }
  std::string Who(const std::string& token) {
    const auto caller = With("Bearer " + token);
    return caller.ok() ? caller->principal : ErrorReason(caller.status());
  }

  testing::TemporaryFolder folder_;
  std::chrono::system_clock::time_point now_{seconds(1'800'000'000)};
  std::vector<std::string> reloads_;
  std::function<void()> during_reload_;
  std::unique_ptr<Authenticator> authenticator_;
};

TEST_F(AuthenticatorTest, KnowsTheBearerOfAToken) {
  WriteCredentials(Row("one", "p1") + "," + Row("two", "p2"));
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Who("one"), "p1");
  EXPECT_EQ(Who("two"), "p2");
  EXPECT_EQ(With("bearer one")->principal, "p1") << "schemes have no case";
  for (const char* wrong : {"three", "on", "onee", "One"}) EXPECT_EQ(Who(wrong), "TOKEN_INVALID");
  for (const char* wrong : {"", "one", "Basic one", "Bearer", "Bearer ", "Bearerone"}) {
    EXPECT_EQ(ErrorReason(With(wrong).status()), "TOKEN_INVALID") << wrong;
  }
}

TEST_F(AuthenticatorTest, AsksForACredential) {
  WriteCredentials(Row("one", "p1"));
  ASSERT_TRUE(Open().ok());
  const absl::Status none = authenticator_->Authenticate({}).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(ErrorReason(none), "CREDENTIALS_MISSING");
  const absl::Status two =
      authenticator_->Authenticate({.authorization = {"Bearer one", "Bearer one"}}).status();
  EXPECT_EQ(ErrorReason(two), "TOKEN_INVALID");
}

TEST_F(AuthenticatorTest, AWrongTokenIsNotMadeGoodByACertificate) {
  WriteCredentials(
      R"({"certificate": "cn:a", "tenant": "acme", "principal": "p", "roles": ["reader"]})");
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(authenticator_->Authenticate({.certificate_names = {"cn:a"}})->principal, "p");
  const PresentedCredentials both{.authorization = {"Bearer x"}, .certificate_names = {"cn:a"}};
  EXPECT_EQ(ErrorReason(authenticator_->Authenticate(both).status()), "TOKEN_INVALID");
  const PresentedCredentials other{.certificate_names = {"cn:b", "dns:b"}};
  EXPECT_EQ(ErrorReason(authenticator_->Authenticate(other).status()), "CERTIFICATE_UNKNOWN");
}

TEST_F(AuthenticatorTest, ACredentialEnds) {
  WriteCredentials(Row("one", "p1", R"(, "expires": "2027-01-15T08:00:05Z")"));
  ASSERT_TRUE(Open().ok());
  now_ += seconds(4);
  EXPECT_EQ(Who("one"), "p1");
  now_ += seconds(1);
  EXPECT_EQ(Who("one"), "TOKEN_EXPIRED");
}

TEST_F(AuthenticatorTest, TakesANewFileWithinASecond) {
  WriteCredentials(Row("one", "p1"));
  ASSERT_TRUE(Open().ok());
  WriteCredentials(Row("two", "p2"));
  EXPECT_EQ(Who("one"), "p1");
  EXPECT_THAT(reloads_, IsEmpty());
  now_ += seconds(1);
  EXPECT_EQ(Who("one"), "TOKEN_INVALID");
  EXPECT_EQ(Who("two"), "p2");
  now_ += seconds(1);
  EXPECT_EQ(Who("two"), "p2");
  EXPECT_THAT(reloads_, ElementsAre("credentials OK"));
}

TEST_F(AuthenticatorTest, OtherThreadsDoNotWaitForAReload) {
  WriteCredentials(Row("one", "p1"));
  ASSERT_TRUE(Open().ok());
  std::string other;
  during_reload_ = [&] { std::thread([&] { other = Who("one"); }).join(); };
  Write("credentials", "{");
  now_ += seconds(1);
  EXPECT_EQ(Who("one"), "p1");
  EXPECT_EQ(other, "p1");
}

TEST_F(AuthenticatorTest, AnInvalidFileKeepsTheOldCredentialsAndIsReportedOnce) {
  WriteCredentials(Row("one", "p1"));
  ASSERT_TRUE(Open().ok());
  Write("credentials", "{");
  for (int i = 0; i < 3; ++i) {
    now_ += seconds(1);
    EXPECT_EQ(Who("one"), "p1");
  }
  EXPECT_THAT(reloads_, ElementsAre("credentials CREDENTIALS_INVALID"));
  std::filesystem::remove(folder_.path() + "/credentials");
  for (int i = 0; i < 3; ++i) {
    now_ += seconds(1);
    EXPECT_EQ(Who("one"), "p1");
  }
  WriteCredentials(Row("two", "p2"));
  now_ += seconds(1);
  EXPECT_EQ(Who("two"), "p2");
  EXPECT_THAT(reloads_, ElementsAre("credentials CREDENTIALS_INVALID",
                                    "credentials CREDENTIALS_UNREADABLE", "credentials OK"));
}

TEST_F(AuthenticatorTest, AClockThatIsSetBackDoesNotStopReloading) {
  WriteCredentials(Row("one", "p1"));
  ASSERT_TRUE(Open().ok());
  WriteCredentials(Row("two", "p2"));
  now_ -= std::chrono::hours(1);
  EXPECT_EQ(Who("two"), "p2");
}

TEST_F(AuthenticatorTest, RotatesKeysOfTokensByTheirIds) {
  const SigningKey old_key("EdDSA", "2026");
  const SigningKey new_key("ES256", "2027");
  const nlohmann::json claims = {{"iss", "i"},       {"aud", "a"},        {"sub", "phone"},
                                 {"tenant", "acme"}, {"roles", "reader"}, {"exp", 1'800'000'600}};
  const std::string old_token = Jwt({{"alg", "EdDSA"}, {"kid", "2026"}}, claims, old_key);
  const std::string new_token = Jwt({{"alg", "ES256"}, {"kid", "2027"}}, claims, new_key);
  WriteCredentials("");
  Write("keys", KeySet({&old_key}));
  ASSERT_TRUE(Open(/*with_jwt=*/true).ok());
  EXPECT_EQ(Who(old_token), "phone");
  EXPECT_EQ(Who(new_token), "TOKEN_INVALID");
  Write("keys", KeySet({&old_key, &new_key}));
  now_ += seconds(1);
  EXPECT_EQ(Who(old_token), "phone");
  EXPECT_EQ(Who(new_token), "phone");
  Write("keys", KeySet({&new_key}));
  now_ += seconds(1);
  EXPECT_EQ(Who(old_token), "TOKEN_INVALID");
  EXPECT_EQ(Who(new_token), "phone");
  EXPECT_THAT(reloads_, ElementsAre("keys OK", "keys OK"));
}

TEST_F(AuthenticatorTest, ABadFileAtTheStartIsAnErrorThatNamesIt) {
  EXPECT_EQ(ErrorReason(Open()), "CREDENTIALS_UNREADABLE");
  WriteCredentials("{}");
  const absl::Status invalid = Open();
  EXPECT_EQ(ErrorReason(invalid), "CREDENTIALS_INVALID");
  EXPECT_THAT(std::string(invalid.message()), ::testing::HasSubstr("/credentials: credential 1"));
}

TEST(CallerTest, TenantsAreNamedAsTheEngineNamesThem) {
  for (const char* tenant : {"a", "acme-2", "default", "", "A", "1a", "a_b", "a/b", "-a", "a.b",
                             "a23456789012345678901234567890123456789012345678901234567890123",
                             "a234567890123456789012345678901234567890123456789012345678901234"}) {
    const Caller caller{.tenant = tenant, .principal = "p", .roles = {Role::kReader}};
    EXPECT_EQ(ValidateCaller(caller).ok(), ValidateTenant(tenant).ok()) << tenant;
  }
}

TEST(CallerTest, EveryPrincipalMaySubmitAsItself) {
  for (int c = 1; c < 128; ++c) {
    const Caller caller{
        .tenant = "a", .principal = std::string(1, static_cast<char>(c)), .roles = {Role::kOwner}};
    if (c == '/') continue;  // ends none
    EXPECT_EQ(ValidateCaller(caller).ok(), ValidateContributor(caller.principal).ok()) << c;
  }
}

}  // namespace
}  // namespace sparseagg
