#include "service/admin/admin_address.h"

#include <gtest/gtest.h>

namespace sparseagg {
namespace {

TEST(AdminAddressTest, TakesNamesAndBothKindsOfAddresses) {
  const auto ipv4 = ParseAdminAddress("127.0.0.1:50062");
  ASSERT_TRUE(ipv4.ok());
  EXPECT_EQ(ipv4->host, "127.0.0.1");
  EXPECT_EQ(ipv4->port, 50062);
  EXPECT_TRUE(ipv4->is_loopback);
  const auto ipv6 = ParseAdminAddress("[::1]:0");
  ASSERT_TRUE(ipv6.ok());
  EXPECT_EQ(ipv6->host, "::1");
  EXPECT_TRUE(ipv6->is_loopback);
  EXPECT_TRUE(ParseAdminAddress("localhost:1")->is_loopback);
  EXPECT_FALSE(ParseAdminAddress("0.0.0.0:1")->is_loopback);
}

TEST(AdminAddressTest, RefusesWhatIsNoAddress) {
  for (const char* text : {"", "127.0.0.1", ":1", "host:", "host:x", "host:65536", "[::1:1"}) {
    EXPECT_FALSE(ParseAdminAddress(text).ok()) << text;
  }
}

TEST(AdminAddressTest, KnowsThisMachine) {
  EXPECT_TRUE(IsLoopback("127.0.0.1"));
  EXPECT_TRUE(IsLoopback("127.8.9.10"));
  EXPECT_TRUE(IsLoopback("::1"));
  EXPECT_TRUE(IsLoopback("::ffff:127.0.0.1"));
  EXPECT_FALSE(IsLoopback("10.0.0.1"));
  EXPECT_FALSE(IsLoopback("127.0.0.1.example.com"));
}

TEST(AdminAddressTest, AForeignNameInTheHostHeaderIsNotThisMachine) {
  EXPECT_TRUE(NamesLoopback("127.0.0.1:50062"));
  EXPECT_TRUE(NamesLoopback("localhost"));
  EXPECT_TRUE(NamesLoopback("[::1]:50062"));
  EXPECT_FALSE(NamesLoopback("evil.example:50062"));
  EXPECT_FALSE(NamesLoopback("127.0.0.1.evil.example"));
  EXPECT_FALSE(NamesLoopback(""));
}

TEST(AdminAddressTest, CommandsAreSentToNoNameThatOthersChoose) {
  const AdminAddress everywhere = *ParseAdminAddress("0.0.0.0:50062");
  for (const char* host : {"127.0.0.1:50062", "localhost", "10.0.0.7:50062", "[fd00::7]:50062"}) {
    EXPECT_TRUE(IsOwnHost(host, everywhere)) << host;
  }
  for (const char* host : {"evil.example:50062", "10.0.0.7.evil.example", "[::1", ""}) {
    EXPECT_FALSE(IsOwnHost(host, everywhere)) << host;
  }
  EXPECT_TRUE(IsOwnHost("agg.example:50062", *ParseAdminAddress("agg.example:50062")));
}

}  // namespace
}  // namespace sparseagg
