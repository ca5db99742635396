#include "base/host_port.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
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

std::string DialAddressError(std::string_view address) {
  const std::string_view host = address.substr(0, address.rfind(':'));
  const bool is_name = std::ranges::all_of(host, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("-._:[]%").find(c) != std::string_view::npos;
  });
  if (!is_name) return "it is not HOST:PORT: the host has characters that no host has";
  std::string wrong = HostAndPortError(address);
  if (!wrong.empty()) return wrong;
  const std::string_view port = address.substr(address.rfind(':') + 1);
  return port.find_first_not_of('0') == std::string_view::npos ? "port 0 cannot be connected to"
                                                               : "";
}

}  // namespace sparseagg
