#include "client/transport/route.h"

#include <gtest/gtest.h>

#include "tests/client/proxy_environment.h"

namespace sparseagg::client {
namespace {

using sparseagg::testing::ProxyEnvironment;

std::string ProxyTo(const std::string& address) { return RouteTo(*ParseAddress(address)).proxy; }

TEST(RouteTest, NamesTheServerAndItsHost) {
  const ProxyEnvironment none;
  const Route route = RouteTo(*ParseAddress("dns:///agg.example"));
  EXPECT_EQ(route.target, "dns:///agg.example:50061");
  EXPECT_EQ(route.host, "agg.example");
  EXPECT_EQ(route.proxy, "");
}

TEST(RouteTest, KnowsWhereToAskForTls) {
  const ProxyEnvironment none;
  const auto probe_address = [](const std::string& address) {
    return RouteTo(*ParseAddress(address)).probe_address;
  };
  EXPECT_EQ(probe_address("agg.example"), "agg.example:50061");
  EXPECT_EQ(probe_address("dns:///agg.example:9"), "agg.example:9");
  EXPECT_EQ(probe_address("ipv6:[::1]:9"), "[::1]:9");
  EXPECT_EQ(probe_address("unix:/run/socket"), "");
  EXPECT_EQ(probe_address("dns://10.0.0.1/agg.example"), "");
  EXPECT_EQ(probe_address("ipv4:10.0.0.1:1,10.0.0.2:1"), "");
  EXPECT_EQ(RouteTo(*ParseAddress("agg.example"), true).probe_address, "") << "by TLS already";
}

TEST(RouteTest, GoesThroughTheProxyOfTheFirstVariableThatIsSet) {
  const ProxyEnvironment environment("http://third:1");
  EXPECT_EQ(ProxyTo("agg.example"), "third:1");
  ProxyEnvironment::Set("https_proxy", "HTTP://second:2/");
  EXPECT_EQ(ProxyTo("agg.example"), "second:2");
  ProxyEnvironment::Set("grpc_proxy", "http://user:pass@first:3");
  EXPECT_EQ(ProxyTo("agg.example"), "first:3");
  ProxyEnvironment::Set("grpc_proxy", "");
  EXPECT_EQ(ProxyTo("agg.example"), "") << "nothing means none";
  ProxyEnvironment::Set("grpc_proxy", "https://first:3");
  EXPECT_EQ(ProxyTo("agg.example"), "") << "gRPC speaks to proxies in plain only";
}

TEST(RouteTest, GoesDirectlyToThisMachineAndToWhatIsExcepted) {
  const ProxyEnvironment environment("http://proxy:1");
  EXPECT_EQ(ProxyTo("127.0.0.1"), "");
  EXPECT_EQ(ProxyTo("unix:/run/socket"), "");
  ProxyEnvironment::Set("no_proxy", "other.example, .EXAMPLE ,");
  EXPECT_EQ(ProxyTo("agg.example"), "");
  EXPECT_EQ(ProxyTo("agg.example.org"), "proxy:1");
  ProxyEnvironment::Set("no_grpc_proxy", "example.org");
  EXPECT_EQ(ProxyTo("agg.example"), "proxy:1") << "of two variables the first counts";
  EXPECT_EQ(ProxyTo("agg.example.org"), "");
  ProxyEnvironment::Set("no_grpc_proxy", "*");
  EXPECT_EQ(ProxyTo("agg.example"), "");
}

}  // namespace
}  // namespace sparseagg::client
