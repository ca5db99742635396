#include "service/engine/names.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "base/status.h"

namespace sparseagg {
namespace {

struct Rule {
  std::string reason;
  std::function<absl::Status(std::string_view)> validate;
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

TEST(NamesTest, AcceptsExactlyWhatTheRulesAllow) {
  const std::vector<Rule> rules = {
      {"INVALID_ROUND_ID",
       ValidateRoundId,
       {"a", "a-1", "z9-", std::string(63, 'a')},
       {"", "1a", "-a", "A", "aB", "a_b", "a.b", "a b", "\xC3\xA4", std::string(64, 'a')}},
      {"INVALID_ROUND_NAME",
       ValidateRoundName,
       {"rounds/a"},
       {"", "a", "rounds/", "rounds/A", "round/a", "rounds/a/b", "/rounds/a"}},
      {"INVALID_TENANT", ValidateTenant, {"default", "a-1"}, {"", "A", "a/b", "a b", ".."}},
      {"INVALID_REQUEST_ID",
       ValidateRequestId,
       {"", "any text: 1+1", std::string(64, 'x')},
       {std::string(65, 'x'), "a\nb", std::string("\0", 1), "\xFF"}},
      {"INVALID_CONTRIBUTOR",
       ValidateContributor,
       {"a", "user@site.org:/x-1_2", "auth0|123", std::string(128, 'a')},
       {"", "a b", "a\n", "a,b", "\xC3\xA4", std::string("a\0b", 3), std::string(129, 'a')}},
      {"INVALID_UPDATE_ID",
       ValidateUpdateId,
       {"1", "A.b_c-9", std::string(64, 'a')},
       {"", "a/b", "a:b", "a@b", " ", std::string(65, 'a')}},
  };
  for (const Rule& rule : rules) {
    for (const std::string& name : rule.good) EXPECT_TRUE(rule.validate(name).ok()) << name;
    for (const std::string& name : rule.bad) {
      EXPECT_EQ(ErrorReason(rule.validate(name)), rule.reason) << name;
    }
  }
}

TEST(NamesTest, KeepsTheRoundsOfTenantsApartByQualifiedNames) {
  EXPECT_EQ(QualifiedName("default", "rounds/a"), "rounds/a") << "as before there were tenants";
  EXPECT_EQ(QualifiedName("acme", "rounds/a"), "tenants/acme/rounds/a");
  for (const std::string tenant : {"default", "acme", "rounds", "tenants"}) {
    const std::string name = QualifiedName(tenant, "rounds/a");
    EXPECT_EQ(TenantOf(name), tenant);
    EXPECT_EQ(PublicName(name), "rounds/a");
  }
  EXPECT_EQ(PublicName("tenants/acme"), "tenants/acme") << "no qualified name";
}

TEST(NamesTest, QuotesTextOfAnyLanguageAsItIsAndCutsNoCharacter) {
  for (const std::string name : {"W\xC3\xB6rter", "重み/層1", "вес", "🧮", "a\u00A0b"}) {
    EXPECT_EQ(Quoted(name), '"' + name + '"');
  }
  std::string long_name;
  while (long_name.size() < 100)
    long_name += "\xE6\x97\xA5";  // three bytes: 80 end within the 27th
  EXPECT_EQ(Quoted(long_name), "\"" + long_name.substr(0, 78) + "...\"");
}

TEST(NamesTest, QuotesForeignTextOnOneShortLine) {
  EXPECT_EQ(Quoted("a\"b\n"), "\"a\\\"b\\n\"");
  EXPECT_EQ(Quoted(std::string(10000, 'x')), '"' + std::string(80, 'x') + "...\"");
  EXPECT_EQ(ValidateContributor(std::string(100000, '\n')).message().find('\n'),
            absl::string_view::npos);
}

TEST(NamesTest, EscapesWhatIsNoTextAndWhatWouldChangeTheLayoutOfAMessage) {
  EXPECT_EQ(Quoted("a\xFFz"), "\"a\\377z\"");
  EXPECT_EQ(Quoted("\xC3"), "\"\\303\"") << "cut";
  EXPECT_EQ(Quoted("\xC3("), "\"\\303(\"");
  EXPECT_EQ(Quoted("\xC0\xAF"), "\"\\300\\257\"") << "overlong";
  EXPECT_EQ(Quoted("\xED\xA0\x80"), "\"\\355\\240\\200\"") << "half of a pair";
  EXPECT_EQ(Quoted("\xF4\x90\x80\x80"), "\"\\364\\220\\200\\200\"") << "above U+10FFFF";
  EXPECT_EQ(Quoted("\xF8\x88\x80\x80"), "\"\\370\\210\\200\\200\"");
  EXPECT_EQ(Quoted("\xC2\x85"), "\"\\302\\205\"") << "next line";
  EXPECT_EQ(Quoted("\u202Etxt"), "\"\\342\\200\\256txt\"") << "right to left";
  EXPECT_EQ(Quoted("\u2028"), "\"\\342\\200\\250\"");
}

}  // namespace
}  // namespace sparseagg
