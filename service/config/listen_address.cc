#include "service/config/listen_address.h"

#include <sys/un.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace sparseagg {
namespace {

constexpr uint32_t kPortMax = 65'535;

std::string WhyNoPort(const std::string& port) {
  uint32_t number = 0;
  if (port.empty()) return "the port is missing; 0 means any free port";
  if (port.find_first_not_of("0123456789") != std::string::npos) {
    return absl::StrCat("the port \"", port, "\" is not a number");
  }
  if (absl::SimpleAtoi(port, &number) && number <= kPortMax) return "";
  return absl::StrCat("the port ", port, " is above ", kPortMax);
}

std::string OriginError(const std::string& origin) {
  if (origin == "*") return "";
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (!origin.starts_with(scheme)) continue;
    const std::string_view host = std::string_view(origin).substr(scheme.size());
    if (host.empty()) return absl::StrCat(origin, " has no host");
    if (host.find_first_of("/?#@ ") != std::string_view::npos) {
      return absl::StrCat(origin, " has more than scheme, host and port; a browser sends no more");
    }
    if (host.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") != std::string_view::npos) {
      return absl::StrCat(origin, " has capital letters; a browser sends small ones");
    }
    return "";
  }
  return absl::StrCat(origin, " begins neither with https:// nor with http://");
}

}  // namespace

std::string HostAndPortError(std::string_view address) {
  const size_t colon = address.rfind(':');
  const bool in_brackets = address.ends_with(']');
  if (colon == std::string_view::npos || in_brackets) {
    return absl::StrCat("the port is missing, write for example ", std::string(address), ":50061");
  }
  const std::string port(address.substr(colon + 1));
  const std::string_view host = address.substr(0, colon);
  if (host.empty()) {
    return absl::StrCat("the host is missing: 127.0.0.1:", port,
                        " for this machine only, [::]:", port, " or 0.0.0.0:", port,
                        " for all addresses");
  }
  const bool is_ipv6 = host.starts_with('[') && host.ends_with(']');
  if (!is_ipv6 && host.find_first_of("[]:") != std::string_view::npos) {
    return absl::StrCat("an IPv6 address needs brackets, as in [::1]:", port);
  }
  return WhyNoPort(port);
}

std::string ListenAddressError(std::string_view address) {
  if (address.starts_with("unix-abstract:")) return "";
  constexpr std::string_view kUnix = "unix:";
  if (!address.starts_with(kUnix)) return HostAndPortError(address);
  const size_t bytes = address.size() - kUnix.size();
  constexpr size_t kPathMax = sizeof(sockaddr_un::sun_path) - 1;
  if (bytes == 0) return "the path is missing";
  return bytes <= kPathMax ? "" : absl::StrCat("the path has more than ", kPathMax, " bytes");
}

std::string BoundAddress(const std::string& listen, int port) {
  return port == 0 ? listen : absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port);
}

std::string LeavesError(std::string_view list) {
  if (list.empty()) return "";
  const std::vector<std::string> leaves =
      absl::StrSplit(absl::string_view(list.data(), list.size()), ',');
  for (const std::string& leaf : leaves) {
    const size_t equals = leaf.find('=');
    const std::string address = equals == std::string::npos ? leaf : leaf.substr(equals + 1);
    if (equals == 0) return absl::StrCat(leaf, " has no id before the =");
    if (std::string wrong = HostAndPortError(address); !wrong.empty()) return wrong;
  }
  return "";
}

std::string OriginsError(std::string_view list) {
  const std::vector<std::string> origins =
      absl::StrSplit(absl::string_view(list.data(), list.size()), ',');
  for (const std::string& origin : origins) {
    if (std::string wrong = OriginError(origin); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace sparseagg
