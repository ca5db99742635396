#include "client/transport/route.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace sparseagg::client {
namespace {

// The value of the first variable that is set, which may be empty.
std::string ValueOf(std::initializer_list<const char*> variables) {
  for (const char* variable : variables) {
    if (const char* value = std::getenv(variable)) return value;
  }
  return {};
}

// HOST:PORT of http://USER:PASSWORD@HOST:PORT/; empty for text that gRPC does not accept as a
// proxy.
std::string ProxyOf(const std::string& url) {
  const std::string scheme = "http://";
  if (!absl::StartsWithIgnoreCase(url, scheme)) return {};
  const size_t end = url.find('/', scheme.size());
  const std::string authority = url.substr(scheme.size(), end - scheme.size());
  return authority.substr(authority.rfind('@') + 1);
}

bool IsExcepted(const std::string& host, const std::string& exceptions) {
  const std::vector<std::string> entries = absl::StrSplit(exceptions, ',');
  return std::ranges::any_of(entries, [&host](const std::string& entry) {
    const auto suffix = absl::StripAsciiWhitespace(entry);
    return suffix == "*" || (!suffix.empty() && absl::EndsWithIgnoreCase(host, suffix));
  });
}

std::string ProxyTo(const Address& address) {
  if (IsDirect(address)) return {};
  const std::string exceptions = ValueOf({"no_grpc_proxy", "no_proxy"});
  if (std::ranges::all_of(address.hosts, [&exceptions](const std::string& host) {
        return IsExcepted(host, exceptions);
      })) {
    return {};
  }
  return ProxyOf(ValueOf({"grpc_proxy", "https_proxy", "http_proxy"}));
}

}  // namespace

Route RouteTo(const Address& address, bool by_tls) {
  Route route{.target = address.target,
              .host = absl::StrJoin(address.hosts, ","),
              .proxy = ProxyTo(address),
              .probe_address = {}};
  const bool has_place = address.hosts.size() == 1 && !address.by_authority;
  if (!by_tls && has_place && route.proxy.empty()) {
    // Behind what the address may begin with, as dns:///.
    const size_t host = route.target.rfind(address.hosts[0]);
    const bool in_brackets = host > 0 && route.target[host - 1] == '[';
    route.probe_address = route.target.substr(in_brackets ? host - 1 : host);
  }
  return route;
}

}  // namespace sparseagg::client
