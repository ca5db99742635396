#include "service/admin/admin_address.h"

#include <arpa/inet.h>

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sparseagg {
namespace {

struct HostAndPort {
  std::string_view host;
  std::string_view port;  // empty if the text has none
};

// Returns nullopt if a bracket is not closed, or is followed by anything but a port.
std::optional<HostAndPort> Split(std::string_view text) {
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view rest = text.substr(end + 1);
    if (!rest.empty() && !rest.starts_with(':')) return std::nullopt;
    return HostAndPort{text.substr(1, end - 1), rest.empty() ? rest : rest.substr(1)};
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return HostAndPort{text, ""};
  return HostAndPort{text.substr(0, colon), text.substr(colon + 1)};
}

bool IsInNumbers(const std::string& host) {
  in6_addr ignored = {};
  return inet_pton(AF_INET, host.c_str(), &ignored) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

bool IsIpv4Loopback(std::string_view host) {
  return host.starts_with("127.") &&
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

absl::StatusOr<AdminAddress> ParseAdminAddress(std::string_view listen) {
  constexpr int kPortMax = 65535;
  const std::optional<HostAndPort> parts = Split(listen);
  AdminAddress address;
  if (!parts || parts->host.empty() || !absl::SimpleAtoi(std::string(parts->port), &address.port) ||
      address.port < 0 || address.port > kPortMax) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_CONFIG",
                     absl::StrCat("admin-listen is \"", std::string(listen),
                                  "\"; it must be HOST:PORT, as 127.0.0.1:50062, or none"));
  }
  address.host = std::string(parts->host);
  address.is_loopback = IsLoopback(address.host);
  return address;
}

bool IsLoopback(std::string_view host) {
  constexpr std::string_view kMapped = "::ffff:";  // prefix of an IPv4 address on an IPv6 socket
  if (host.starts_with(kMapped)) host.remove_prefix(kMapped.size());
  return host == "localhost" || host == "::1" || IsIpv4Loopback(host);
}

bool NamesLoopback(std::string_view host_header) {
  const std::optional<HostAndPort> parts = Split(host_header);
  return parts.has_value() && IsLoopback(parts->host);
}

bool IsOwnHost(std::string_view host_header, const AdminAddress& address) {
  const std::optional<HostAndPort> parts = Split(host_header);
  return parts.has_value() && (IsLoopback(parts->host) || parts->host == address.host ||
                               IsInNumbers(std::string(parts->host)));
}

}  // namespace sparseagg
