#include "service/auth/credential_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"

namespace sparseagg {
namespace {

using ::testing::HasSubstr;

// A file of one row.
std::string File(const std::string& row) {
  return absl::StrCat("{\"credentials\": [{", row, "}]}");
}
std::string TokenFile(const std::string& token) {
  return File(absl::StrCat("\"token_sha256\": \"", ToHex(DigestOf(token)),
                           R"(", "tenant": "acme", "principal": "server", "roles": ["owner"])"));
}
std::string CertificateFile(const std::string& name, const std::string& principal = "phone") {
  return File(absl::StrCat("\"certificate\": \"", name, "\", \"principal\": \"", principal,
                           R"(", "tenant": "acme", "roles": ["contributor"])"));
}
std::string PrincipalOf(const std::string& pattern, const std::string& name,
                        const std::string& principal = "*") {
  const auto table = CredentialTable::Parse(CertificateFile(pattern, principal));
  EXPECT_TRUE(table.ok()) << table.status();
  const std::string names[] = {"cn:something else", name};
  const auto caller = table->FindCertificate(names);
  return caller ? caller->principal : "";
}

TEST(CredentialTableTest, FindsATokenByItsDigest) {
  const std::string token = NewToken();
  const auto table = CredentialTable::Parse(TokenFile(token));
  ASSERT_TRUE(table.ok()) << table.status();
  const Caller* caller = table->FindToken(token);
  ASSERT_NE(caller, nullptr);
  EXPECT_EQ(caller->tenant, "acme");
  EXPECT_EQ(caller->principal, "server");
  EXPECT_EQ(caller->roles, RoleSet{Role::kOwner});
  EXPECT_EQ(table->FindToken(token + "x"), nullptr);
  EXPECT_EQ(table->FindToken(""), nullptr);
  EXPECT_EQ(table->FindToken(ToHex(DigestOf(token))), nullptr) << "what the file shows is no token";
}

TEST(CredentialTableTest, NewTokensAreLongAndDiffer) {
  const std::string a = NewToken();
  EXPECT_EQ(a.size(), 47u);
  EXPECT_NE(a, NewToken());
}

TEST(CredentialTableTest, FindsACertificateByOneOfItsNames) {
  EXPECT_EQ(PrincipalOf("dns:a.example", "dns:a.example", "p"), "p");
  EXPECT_EQ(PrincipalOf("dns:A.example", "dns:a.EXAMPLE", "p"), "p");
  EXPECT_EQ(PrincipalOf("uri:spiffe://acme/A", "uri:spiffe://acme/a", "p"), "");
  EXPECT_EQ(PrincipalOf("dns:a.example", "cn:a.example", "p"), "") << "another kind of name";
  EXPECT_EQ(PrincipalOf("dns:a.example", std::string("dns:a.example\0x", 15), "p"), "");
}

TEST(CredentialTableTest, OneStarStandsForOnePartOfAName) {
  EXPECT_EQ(PrincipalOf("dns:*.phones.example", "dns:p-1.phones.example"), "p-1");
  EXPECT_EQ(PrincipalOf("uri:spiffe://acme/phones/*", "uri:spiffe://acme/phones/p_2"), "p_2");
  EXPECT_EQ(PrincipalOf("cn:*", "cn:p3"), "p3");
  EXPECT_EQ(PrincipalOf("cn:phone-*", "cn:phone-p3", "all"), "all");
  for (const char* name : {"dns:.phones.example", "dns:phones.example", "dns:a.b.phones.example",
                           "dns:a/b.phones.example", "dns:a b.phones.example"}) {
    EXPECT_EQ(PrincipalOf("dns:*.phones.example", name), "") << name;
  }
}

TEST(CredentialTableTest, TheFirstRowThatMatchesCounts) {
  const auto table = CredentialTable::Parse(R"({"credentials": [
      // comments are welcome
      {"certificate": "cn:a", "tenant": "acme", "principal": "a", "roles": ["reader", "operator"]},
      {"certificate": "cn:*", "tenant": "rest", "principal": "*", "roles": ["contributor"]}]})");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->size(), 2u);
  const std::string a[] = {"cn:a"};
  EXPECT_EQ(table->FindCertificate(a)->tenant, "acme");
  const std::string b[] = {"cn:b"};
  EXPECT_EQ(table->FindCertificate(b)->tenant, "rest");
  EXPECT_FALSE(table->FindCertificate({}).has_value());
}

TEST(CredentialTableTest, ReadsWhenACredentialEnds) {
  const std::string row =
      R"("certificate": "cn:a", "tenant": "acme", "principal": "a", "roles": ["reader"],
         "expires": "2027-01-31T00:00:00Z")";
  const auto table = CredentialTable::Parse(File(row));
  ASSERT_TRUE(table.ok()) << table.status();
  const std::string names[] = {"cn:a"};
  EXPECT_EQ(std::chrono::system_clock::to_time_t(table->FindCertificate(names)->expires),
            1801353600);
}

TEST(CredentialTableTest, ReadsTheLimitsOfTenants) {
  const auto table = CredentialTable::Parse(
      R"({"tenants": {"acme": {"tenant-rounds-max": 5, "tenant-uploads-max": 7}}})");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->tenants().at("acme").at("tenant-rounds-max"), 5u);
  EXPECT_EQ(table->tenants().at("acme").size(), 2u);
}

TEST(CredentialTableTest, SaysWhichRowIsWrongAndHow) {
  const std::string good = TokenFile("t");
  ASSERT_TRUE(CredentialTable::Parse(good).ok());
  struct Case {
    std::string file;
    std::string message;
  };
  const auto changed = [&](const std::string& from, const std::string& to) {
    const std::string file = absl::StrReplaceAll(good, {{from, to}});
    EXPECT_NE(file, good) << from;
    return file;
  };
  const Case cases[] = {
      {"", "not a JSON object"},
      {"[]", "not a JSON object"},
      {R"({"credential": []})", "unknown key \"credential\""},
      {R"({"credentials": {}})", "not a list"},
      {R"({"credentials": [1]})", "credential 1 is not an object"},
      {changed("\"acme\"", "\"Acme\""), "credential 1: tenant \"Acme\""},
      {changed("\"server\"", "\"a b\""), "principal"},
      {changed("\"server\"", "\"*\""), "no certificate"},
      {changed("\"server\"", "7"), "no \"principal\""},
      {changed("\"owner\"", "\"admin\""), "role \"admin\""},
      {changed("[\"owner\"]", "[]"), "roles"},
      {changed("\"roles\"", "\"rules\""), "unknown key \"rules\""},
      {changed("token_sha256", "certificate"), "dns:"},
      {changed("\"token_sha256\": \"e", "\"token_sha256\": \"x"), "64 hex digits"},
      {changed("\"tenant\": \"acme\"", "\"tenant\": \"acme\", \"expires\": \"soon\""), "2027"},
      {changed("\"tenant\": \"acme\"", "\"tenant\": \"acme\", \"certificate\": \"cn:a\""),
       "one of"},
      {CertificateFile("cn:a", "*"), "no * in"},
      {CertificateFile("cn:*-*"), "more than one *"},
      {CertificateFile("cn:"), "dns:"},
      {R"({"tenants": {"Acme": {"tenant-rounds-max": 5}}})", "\"tenants\": tenant \"Acme\""},
      {R"({"tenants": {"acme": {"rounds": 5}}})", "\"rounds\""},
      {R"({"tenants": {"acme": {"tenant-rounds-max": -5}}})", "tenant-rounds-max"},
  };
  for (const Case& c : cases) {
    const absl::Status status = CredentialTable::Parse(c.file).status();
    EXPECT_EQ(ErrorReason(status), "CREDENTIALS_INVALID") << c.file;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message)) << c.file;
  }
}

TEST(CredentialTableTest, RefusesATokenForTwo) {
  const std::string row =
      absl::StrCat("{\"token_sha256\": \"", ToHex(DigestOf("t")),
                   R"(", "tenant": "acme", "principal": "a", "roles": ["owner"]})");
  const absl::Status status =
      CredentialTable::Parse(absl::StrCat("{\"credentials\": [", row, ",", row, "]}")).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("credential 2 has the same token as another"));
}

}  // namespace
}  // namespace sparseagg
