#include "client/transport/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace sparseagg::client {
namespace {

constexpr size_t kLengthMax = 512;
constexpr size_t kNameLengthMax = 253;
constexpr size_t kLabelLengthMax = 63;
constexpr char kHere[] = "the address of the server";

using Bytes4 = std::array<unsigned char, 4>;
using Bytes16 = std::array<unsigned char, 16>;

std::optional<Bytes4> ParseIpv4(std::string_view text) {
  Bytes4 bytes;
  if (inet_pton(AF_INET, std::string(text).c_str(), bytes.data()) != 1) return std::nullopt;
  return bytes;
}

std::optional<Bytes16> ParseIpv6(std::string_view text) {
  Bytes16 bytes;
  if (inet_pton(AF_INET6, std::string(text).c_str(), bytes.data()) != 1) return std::nullopt;
  return bytes;
}

std::string_view WithoutZone(std::string_view host) { return host.substr(0, host.find('%')); }

// With or without a zone, as in fe80::1%eth0.
bool IsIpv6(std::string_view host) {
  const size_t percent = host.find('%');
  if (!ParseIpv6(WithoutZone(host)).has_value()) return false;
  if (percent == std::string_view::npos) return true;
  const std::string_view zone = host.substr(percent + 1);
  return !zone.empty() && std::ranges::all_of(zone, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("._~-").find(c) != std::string_view::npos;
  });
}

absl::Status Refuse(const std::string& message) {
  return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_TARGET", message);
}

struct HostAndPort {
  std::string host;  // without brackets
  std::string target;
};

// Parses one address; messages quote all of `text`.
class Parser {
 public:
  Parser(std::string_view text, uint16_t default_port) : text_(text), default_port_(default_port) {}

  absl::StatusOr<Address> Parse() const {
    SPARSEAGG_RETURN_IF_ERROR(CheckCharacters());
    for (const std::string prefix : {"unix:", "unix-abstract:"}) {
      if (text_.starts_with(prefix)) return ParseSocket(prefix);
    }
    // The message must not quote the text, which may contain a password.
    if (text_.find('@') != std::string::npos) {
      return Refuse(
          absl::StrCat(kHere, " has a user before \"@\"; leave it out: a token says who calls"));
    }
    if (absl::StartsWithIgnoreCase(text_, "http://")) return ParseUrl(text_.substr(7), false);
    if (absl::StartsWithIgnoreCase(text_, "https://")) return ParseUrl(text_.substr(8), true);
    if (text_.starts_with("dns:")) return ParseDns();
    if (text_.starts_with("ipv4:")) return ParseLiterals("ipv4:", "IPv4");
    if (text_.starts_with("ipv6:")) return ParseLiterals("ipv6:", "IPv6");
    if (text_.find("://") != std::string::npos) {
      return Refused(
          "begins with an unknown scheme; give HOST:PORT, http://, https://, dns:/// or unix:");
    }
    SPARSEAGG_ASSIGN_OR_RETURN(HostAndPort parsed, ParseHostAndPort(text_));
    return Address{.target = std::move(parsed.target), .hosts = {std::move(parsed.host)}};
  }

 private:
  absl::Status Refused(const std::string& what) const {
    return Refuse(absl::StrCat("the address \"", text_, "\" ", what));
  }
  absl::Status RefusedHost(const std::string& host, const std::string& what) const {
    return Refused(absl::StrCat("has the host \"", host, "\", which is ", what));
  }

  absl::Status CheckCharacters() const {
    if (text_.empty()) return Refuse(absl::StrCat(kHere, " is empty; give HOST:PORT"));
    if (text_.size() > kLengthMax) {
      return Refuse(
          absl::StrCat(kHere, " has more than ", kLengthMax, " characters; give HOST:PORT"));
    }
    if (!std::ranges::all_of(text_, [](char c) { return '!' <= c && c <= '~'; })) {
      return Refuse(absl::StrCat(
          kHere, " has a blank, a control character or one beyond ASCII; give HOST:PORT"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Address> ParseSocket(const std::string& prefix) const {
    const std::string path = text_.substr(prefix.size());
    if (path.empty() || path == "//") return Refused("names no socket; give unix:/PATH");
    return Address{.target = text_, .is_socket = true};
  }

  absl::StatusOr<Address> ParseUrl(std::string rest, bool tls) const {
    if (rest.ends_with('/')) rest.pop_back();
    if (rest.find_first_of("/?#") != std::string::npos) {
      return Refused("goes on after the port; give HOST:PORT alone");
    }
    SPARSEAGG_ASSIGN_OR_RETURN(HostAndPort parsed, ParseHostAndPort(rest));
    return Address{
        .target = std::move(parsed.target), .tls = tls, .hosts = {std::move(parsed.host)}};
  }

  absl::StatusOr<Address> ParseDns() const {
    constexpr std::string_view kWithAuthority = "dns://";
    std::string prefix = "dns:";
    bool by_authority = false;
    if (text_.starts_with(kWithAuthority)) {
      const size_t slash = text_.find('/', kWithAuthority.size());
      if (slash == std::string::npos) return Refused("names no host; give HOST:PORT");
      by_authority = slash > kWithAuthority.size();
      prefix = text_.substr(0, slash + 1);
    }
    SPARSEAGG_ASSIGN_OR_RETURN(HostAndPort parsed, ParseHostAndPort(text_.substr(prefix.size())));
    return Address{.target = absl::StrCat(prefix, parsed.target),
                   .hosts = {std::move(parsed.host)},
                   .by_authority = by_authority};
  }

  // A list of IP addresses.
  absl::StatusOr<Address> ParseLiterals(const std::string& prefix,
                                        const std::string& family) const {
    Address address;
    std::vector<std::string> targets;
    for (const std::string& part :
         std::vector<std::string>(absl::StrSplit(text_.substr(prefix.size()), ','))) {
      SPARSEAGG_ASSIGN_OR_RETURN(HostAndPort parsed, ParseHostAndPort(part));
      targets.push_back(std::move(parsed.target));
      address.hosts.push_back(std::move(parsed.host));
    }
    for (const std::string& host : address.hosts) {
      const bool fits = family == "IPv4" ? ParseIpv4(host).has_value() : IsIpv6(host);
      if (!fits) return RefusedHost(host, absl::StrCat("not an ", family, " address"));
    }
    address.target = absl::StrCat(prefix, absl::StrJoin(targets, ","));
    return address;
  }

  absl::StatusOr<HostAndPort> ParseHostAndPort(const std::string& part) const {
    if (part.starts_with("[")) return ParseBrackets(part.substr(1));
    if (std::ranges::count(part, ':') > 1) {
      if (IsIpv6(part)) {
        return HostAndPort{part, absl::StrCat("[", part, "]:", default_port_)};
      }
      return Refused("has several colons and is no IPv6 address; give HOST:PORT or [IPV6]:PORT");
    }
    const size_t colon = part.find(':');
    const std::string host = part.substr(0, colon);
    if (host.empty()) return Refused("names no host; give HOST:PORT");
    SPARSEAGG_RETURN_IF_ERROR(CheckHost(host));
    uint16_t port = default_port_;
    if (colon != std::string::npos) {
      SPARSEAGG_ASSIGN_OR_RETURN(port, ParsePort(part.substr(colon + 1)));
    }
    return HostAndPort{host, absl::StrCat(host, ":", port)};
  }

  // `rest` is the text behind the opening bracket.
  absl::StatusOr<HostAndPort> ParseBrackets(const std::string& rest) const {
    const size_t bracket = rest.find(']');
    const std::string host = rest.substr(0, bracket);
    const std::string after =
        bracket == std::string::npos ? std::string() : rest.substr(bracket + 1);
    if (bracket == std::string::npos || !IsIpv6(host) || (!after.empty() && after[0] != ':')) {
      return Refused("is not [IPV6]:PORT");
    }
    uint16_t port = default_port_;
    if (!after.empty()) {
      SPARSEAGG_ASSIGN_OR_RETURN(port, ParsePort(after.substr(1)));
    }
    return HostAndPort{host, absl::StrCat("[", host, "]:", port)};
  }

  absl::StatusOr<uint16_t> ParsePort(const std::string& text) const {
    uint16_t port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc() || end != text.data() + text.size() || port == 0) {
      return Refused(
          absl::StrCat("has the port \"", text, "\", which is not a number from 1 to 65535"));
    }
    return port;
  }

  absl::Status CheckHost(const std::string& host) const {
    std::vector<std::string> labels = absl::StrSplit(host, '.');
    if (labels.size() > 1 && labels.back().empty())
      labels.pop_back();  // the dot of the root domain
    if (host.size() > kNameLengthMax || !std::ranges::all_of(labels, IsLabel)) {
      return RefusedHost(host,
                         "not a host name: labels of letters, digits, \"-\" and \"_\" with \".\" "
                         "between them");
    }
    const bool ends_in_number = std::ranges::all_of(
        labels.back(), [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); });
    if (ends_in_number && !ParseIpv4(host).has_value()) {
      return RefusedHost(host, "neither a name nor an IPv4 address of four numbers up to 255");
    }
    return absl::OkStatus();
  }

  static bool IsLabel(const std::string& label) {
    return !label.empty() && label.size() <= kLabelLengthMax && label.front() != '-' &&
           label.back() != '-' && std::ranges::all_of(label, [](char c) {
             return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
           });
  }

  const std::string text_;
  const uint16_t default_port_;
};

// Includes 0.0.0.0, to which a connection reaches this machine.
bool IsLoopback(const Bytes4& ip) { return ip[0] == 127 || ip == Bytes4{}; }

bool IsLoopback(const Bytes16& ip) {
  constexpr Bytes16 kLoopback = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  constexpr std::array<unsigned char, 12> kIpv4AsIpv6 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  if (ip == Bytes16{} || ip == kLoopback) return true;
  return std::equal(kIpv4AsIpv6.begin(), kIpv4AsIpv6.end(), ip.begin()) &&
         IsLoopback(Bytes4{ip[12], ip[13], ip[14], ip[15]});
}

bool IsLoopback(const std::string& host) {
  if (const auto ip = ParseIpv4(host)) return IsLoopback(*ip);
  if (const auto ip = ParseIpv6(host)) return IsLoopback(*ip);
  return absl::EqualsIgnoreCase(host, "localhost") || absl::EqualsIgnoreCase(host, "localhost.");
}

bool IsOwnName(const std::string& host) {
  // These are loopback in the hosts files of Debian and others, but not by a standard as
  // "localhost" is.
  for (const char* name : {"ip6-localhost", "ip6-loopback"}) {
    if (absl::EqualsIgnoreCase(host, name)) return true;
  }
  std::array<char, 256> own{};
  if (gethostname(own.data(), own.size() - 1) != 0) return false;
  const std::string name = own.data();
  return absl::EqualsIgnoreCase(host, name) ||
         absl::EqualsIgnoreCase(host, name.substr(0, name.find('.')));
}

// Whether `ip` is an address of this machine: the system would use it as the source address for
// sending to it. No packet is sent.
template <class SocketAddress>
bool IsOwn(int family, SocketAddress ip) {
  const int probe = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  SocketAddress own{};
  socklen_t size = sizeof(own);
  const bool known = connect(probe, reinterpret_cast<sockaddr*>(&ip), sizeof(ip)) == 0 &&
                     getsockname(probe, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  close(probe);
  if constexpr (std::is_same_v<SocketAddress, sockaddr_in>) {
    return known && own.sin_addr.s_addr == ip.sin_addr.s_addr;
  } else {
    return known && std::memcmp(&own.sin6_addr, &ip.sin6_addr, sizeof(own.sin6_addr)) == 0;
  }
}

bool IsOwnAddress(const std::string& host) {
  if (const auto ip = ParseIpv4(host)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(kDefaultPort);
    std::memcpy(&address.sin_addr, ip->data(), ip->size());
    return IsOwn(AF_INET, address);
  }
  if (const auto ip = ParseIpv6(host)) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(kDefaultPort);
    std::memcpy(&address.sin6_addr, ip->data(), ip->size());
    return IsOwn(AF_INET6, address);
  }
  return false;
}

}  // namespace

absl::StatusOr<Address> ParseAddress(std::string_view text, uint16_t default_port) {
  return Parser(text, default_port).Parse();
}

bool IsLocal(const Address& address) {
  if (address.is_socket) return true;
  return !address.by_authority && std::ranges::all_of(address.hosts, [](const std::string& host) {
    return IsLoopback(host);
  });
}

bool IsDirect(const Address& address) {
  if (IsLocal(address)) return true;
  return !address.by_authority && std::ranges::all_of(address.hosts, [](const std::string& host) {
    return IsLoopback(host) || IsOwnName(host) || IsOwnAddress(host);
  });
}

}  // namespace sparseagg::client
