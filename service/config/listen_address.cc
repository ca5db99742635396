#include "service/config/listen_address.h"

#include <sys/un.h>

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

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

}  // namespace sparseagg
