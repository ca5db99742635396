#include "client/transport/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

#include "absl/strings/ascii.h"
#include "nlohmann/json.hpp"
#include "tests/client/support.h"

namespace sparseagg::client {
namespace {

using nlohmann::json;

TEST(AddressTest, VectorsMeanTheSameAsInPython) {
  std::ifstream file(SPARSEAGG_SOURCE_DIR "/tests/vectors/addresses.json");
  const json vectors = json::parse(file);
  ASSERT_GT(vectors.size(), 150u);
  for (const json& vector : vectors) {
    const auto text = vector.at("address").get<std::string>();
    SCOPED_TRACE(text);
    const auto address = ParseAddress(text);
    if (vector.contains("error")) {
      EXPECT_EQ(address.status().message(), vector.at("error").get<std::string>());
      EXPECT_EQ(ErrorReason(address.status()), "INVALID_TARGET");
      continue;
    }
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->target, vector.at("target").get<std::string>());
    EXPECT_EQ(address->tls.has_value(), vector.contains("tls"));
    if (address->tls.has_value()) {
      EXPECT_EQ(*address->tls, vector.at("tls").get<bool>());
    }
    EXPECT_EQ(IsLocal(*address), vector.value("local", false));
    if (vector.value("local", false) || vector.contains("direct")) {
      EXPECT_TRUE(IsDirect(*address));
    }
  }
}

TEST(AddressTest, ReadsItsOwnTargets) {
  std::ifstream file(SPARSEAGG_SOURCE_DIR "/tests/vectors/addresses.json");
  for (const json& vector : json::parse(file)) {
    if (!vector.contains("target")) continue;
    const auto target = vector.at("target").get<std::string>();
    EXPECT_EQ(ParseAddress(target).value().target, target);
  }
}

TEST(AddressTest, APortThatIsMissingIsTheOneAskedFor) {
  EXPECT_EQ(ParseAddress("host", 50062)->target, "host:50062");
  EXPECT_EQ(ParseAddress("::1", 50062)->target, "[::1]:50062");
  EXPECT_EQ(ParseAddress("host:9", 50062)->target, "host:9");
}

TEST(AddressTest, ThisMachineIsDirectByItsNameAndAddresses) {
  std::array<char, 256> own{};
  ASSERT_EQ(gethostname(own.data(), own.size() - 1), 0);
  const std::string name = own.data();
  const auto address = ParseAddress(absl::AsciiStrToUpper(name) + ":9");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_TRUE(IsDirect(*address));

  ifaddrs* interfaces = nullptr;
  ASSERT_EQ(getifaddrs(&interfaces), 0);
  int found = 0;
  for (const ifaddrs* one = interfaces; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* ip = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    inet_ntop(AF_INET, &ip->sin_addr, text.data(), text.size());
    EXPECT_TRUE(IsDirect(*ParseAddress(text.data()))) << text.data();
    ++found;
  }
  freeifaddrs(interfaces);
  EXPECT_GT(found, 0);
  for (const char* other : {"192.0.2.77", "198.51.100.7:9", "[2001:db8::7]:9", "agg.example"}) {
    EXPECT_FALSE(IsDirect(*ParseAddress(other))) << other;
  }
}

}  // namespace
}  // namespace sparseagg::client
